"""Kafka away, refusing, stalled, slow, cut off: publishing goes on, and nothing is lost or reordered."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from itertools import pairwise

import pytest

from milepost.schemas import DeliveryFailed
from tests.fixtures.proxy import KafkaProxy
from tests.producer.conftest import Make
from tests.producer.helpers import NOBODY, created, header, read_log, steps, wait_until


def test_an_outage_from_the_start_loses_nothing(make: Make, proxy: KafkaProxy, kafka_servers: str, topic: str) -> None:
    proxy.refuse()
    publisher = make(proxy.servers, topic=topic)
    receipts = [publisher.publish(created(number, f"s{number % 3}")) for number in range(600)]
    assert publisher.flush(0.2) == 600
    proxy.accept()
    assert publisher.flush(30) == 0
    assert all(receipt.done() for receipt in receipts)
    records = read_log(kafka_servers, topic)
    for session in range(3):
        assert steps(records, f"t/s{session}".encode()) == list(range(session, 600, 3))


def test_connections_cut_all_the_time_keep_order_and_double_nothing(
    make: Make, proxy: KafkaProxy, kafka_servers: str, topic: str
) -> None:
    publisher = make(proxy.servers, topic=topic, kafka={"linger.ms": 0, "reconnect.backoff.ms": 10})
    publisher.publish(created(0)).result(15)
    for number in range(1, 1_501):
        publisher.publish(created(number, size=500))
        if number % 100 == 0:
            wait_until(lambda: proxy.connections > 0)
            proxy.cut()
    assert publisher.flush(30) == 0
    assert steps(read_log(kafka_servers, topic), b"t/s") == list(range(1_501))


def test_a_stall_is_waited_out_and_publish_does_not_notice(
    make: Make, proxy: KafkaProxy, kafka_servers: str, topic: str
) -> None:
    publisher = make(proxy.servers, topic=topic)
    publisher.publish(created(0)).result(15)
    proxy.stall()
    began = time.monotonic()
    receipts = [publisher.publish(created(number, size=2_000)) for number in range(1, 1_001)]
    assert time.monotonic() - began < 2.0
    assert publisher.flush(0.3) == 1_000
    proxy.resume()
    assert receipts[-1].result(30)
    assert publisher.flush(30) == 0
    assert steps(read_log(kafka_servers, topic), b"t/s") == list(range(1_001))


def test_a_slow_broker_only_delays(make: Make, proxy: KafkaProxy, kafka_servers: str, topic: str) -> None:
    proxy.slow(0.05)
    publisher = make(proxy.servers, topic=topic)
    for number in range(300):
        publisher.publish(created(number))
    assert publisher.flush(30) == 0
    assert steps(read_log(kafka_servers, topic), b"t/s") == list(range(300))


def test_after_a_full_queue_it_recovers_and_the_gap_counts_the_loss(
    make: Make, proxy: KafkaProxy, kafka_servers: str, topic: str
) -> None:
    proxy.refuse()
    publisher = make(proxy.servers, topic=topic, queue_bytes=200_000)
    for number in range(1, 101):
        publisher.publish(created(number, size=5_000))
    lost = publisher.stats().failed_by_reason["queue_full"]
    assert 60 < lost < 80
    proxy.accept()
    assert publisher.flush(30) == 0
    publisher.publish(created(101, size=5_000)).result(15)
    records = read_log(kafka_servers, topic)
    numbers = [int(header(record, "ce_publisherseq") or 0) for record in records]
    assert numbers[-1] - len(numbers) == lost
    assert numbers == [*range(1, 101 - lost), 101]


def test_memory_is_bounded_by_the_queue(make: Make) -> None:
    publisher = make(NOBODY, queue_bytes=8 * 1024 * 1024)
    publisher.publish(created())
    before = _resident()
    for number in range(10_000):
        publisher.publish(created(number, size=7_500))
    stats = publisher.stats()
    assert stats.failed > 8_000
    assert stats.under_way_bytes <= 8 * 1024 * 1024
    # what waits, librdkafka's copy of it, and the interpreter's own
    assert _resident() - before < 40 * 1024 * 1024


def _resident() -> int:
    with open("/proc/self/status") as status:  # noqa: PTH123
        line = next(line for line in status if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def test_a_flood_of_failures_gives_one_line_a_second(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    told: list[DeliveryFailed] = []
    publisher = make(NOBODY, queue_bytes=1, on_failure=told.append)
    with caplog.at_level(logging.INFO):
        for number in range(3_000):
            publisher.publish(created(number))
        wait_until(lambda: len(told) == 3_000)
        publisher.close(1)
    lines = [record for record in caplog.records if "not delivered" in record.getMessage()]
    times = [record.created for record in lines[:-1]]  # the last one comes with the close
    assert all(after - before > 0.9 for before, after in pairwise(times))
    assert sum(int(record.getMessage().split(": ")[1].split()[0]) for record in lines) == 3_000


def test_a_callback_that_hangs_delays_neither_delivery_nor_close(make: Make, kafka_servers: str, topic: str) -> None:
    release, entered = threading.Event(), threading.Event()

    def hang(_: DeliveryFailed) -> None:
        entered.set()
        release.wait(30)

    publisher = make(kafka_servers, topic=topic, queue_bytes=20_000, on_failure=hang)
    publisher.publish(created(size=30_000))
    assert entered.wait(15)
    assert publisher.publish(created()).result(15)
    began = time.monotonic()
    publisher.close(0.2)
    assert time.monotonic() - began < 3.0
    release.set()


def test_close_in_a_stall_is_bounded_and_tells(make: Make, proxy: KafkaProxy, topic: str) -> None:
    told: list[DeliveryFailed] = []
    publisher = make(proxy.servers, topic=topic, on_failure=told.append)
    publisher.publish(created()).result(15)
    proxy.stall()
    receipts = [publisher.publish(created(number)) for number in range(20)]
    began = time.monotonic()
    publisher.close(0.5)
    assert time.monotonic() - began < 3.0
    assert {failure.event_id for failure in told} == {receipt.event_id for receipt in receipts}
    assert {failure.reason for failure in told} == {"closed"}


def test_an_event_that_the_log_refuses_fails_alone(make: Make, kafka_servers: str) -> None:
    publisher = make(kafka_servers, topic="no-such-topic", kafka={"topic.metadata.propagation.max.ms": 100})
    with pytest.raises(DeliveryFailed, match="UNKNOWN_TOPIC") as caught:
        publisher.publish(created()).result(30)
    assert caught.value.reason in ("_UNKNOWN_TOPIC", "UNKNOWN_TOPIC_OR_PART")


def test_a_delivery_timeout_that_was_asked_for_is_kept(make: Make) -> None:
    publisher = make(NOBODY, kafka={"delivery.timeout.ms": 300})
    with pytest.raises(DeliveryFailed, match="_MSG_TIMED_OUT"):
        publisher.publish(created()).result(15)


def test_nothing_blocks_the_loop_while_kafka_is_away(make: Make) -> None:
    publisher = make(NOBODY)

    async def longest_pause() -> float:
        longest, last = 0.0, time.monotonic()
        for number in range(200):
            publisher.publish(created(number, size=7_500))
            await asyncio.sleep(0)
            now = time.monotonic()
            longest, last = max(longest, now - last), now
        return longest

    assert asyncio.run(longest_pause()) < 0.5
