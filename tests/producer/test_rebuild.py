"""Errors that librdkafka can't go on from: a new producer takes over, without loss and in order."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Final

import confluent_kafka
from confluent_kafka import Producer

from milepost.producer import CheckpointPublisher
from milepost.producer.delivery.courier import Courier
from tests.fixtures.proxy import KafkaProxy
from tests.producer.conftest import Make
from tests.producer.helpers import created, header, read_log, wait_until

INVALID_PRODUCER_EPOCH: Final = 47


def _break(publisher: CheckpointPublisher) -> None:
    """Raise a fatal error in the publisher's producer, by librdkafka's own function for tests."""
    courier = publisher._courier
    assert isinstance(courier, Courier)
    wait_until(lambda: courier.link is not None and courier.link.producer is not None)
    producer: Producer | None = courier.link.producer if courier.link else None
    library = next((Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs").glob("librdkafka*"))
    raise_error = ctypes.CDLL(str(library)).rd_kafka_test_fatal_error
    raise_error.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p]
    # behind the object's head (a count and a type) stands the handle
    handle = ctypes.c_void_p.from_address(id(producer) + 2 * ctypes.sizeof(ctypes.c_void_p)).value
    raise_error(handle, INVALID_PRODUCER_EPOCH, b"asked for by a test")


def _first_appearances(servers: str, topic: str) -> list[int]:
    """The numbers of the events in the log's order, each where it came first: who reads drops repeated event ids."""
    return list(dict.fromkeys(int(header(record, "ce_publisherseq") or 0) for record in read_log(servers, topic)))


def test_events_in_the_queue_go_to_the_next_producer(
    make: Make, proxy: KafkaProxy, kafka_servers: str, topic: str
) -> None:
    proxy.refuse()
    publisher = make(proxy.servers, topic=topic)
    receipts = [publisher.publish(created(number)) for number in range(100)]
    _break(publisher)
    wait_until(lambda: publisher.stats().producers_rebuilt == 1)
    receipts += [publisher.publish(created(number)) for number in range(100, 200)]
    proxy.accept()
    assert publisher.flush(30) == 0
    assert [receipt.result(0).offset for receipt in receipts] == list(range(200))
    assert _first_appearances(kafka_servers, topic) == list(range(1, 201))


def test_again_and_again_under_load_nothing_is_lost_or_reordered(make: Make, kafka_servers: str, topic: str) -> None:
    publisher = make(kafka_servers, topic=topic, kafka={"linger.ms": 0})
    count = 0
    for rebuilt in range(1, 5):
        for _ in range(300):
            publisher.publish(created(count, size=300))
            count += 1
        _break(publisher)
        wait_until(lambda rebuilt=rebuilt: publisher.stats().producers_rebuilt == rebuilt)  # type: ignore[misc]
    assert publisher.flush(30) == 0
    assert _first_appearances(kafka_servers, topic) == list(range(1, count + 1))
    stats = publisher.stats()
    assert (stats.delivered, stats.failed, stats.under_way_bytes) == (count, 0, 0)


def test_events_in_flight_go_to_the_next_producer(
    make: Make, proxy: KafkaProxy, kafka_servers: str, topic: str
) -> None:
    publisher = make(proxy.servers, topic=topic, kafka={"linger.ms": 0})
    publisher.publish(created(0)).result(15)
    proxy.stall()
    for number in range(1, 51):
        publisher.publish(created(number))
    assert publisher.flush(0.2) == 50
    _break(publisher)
    wait_until(lambda: publisher.stats().producers_rebuilt == 1)
    proxy.resume()
    assert publisher.flush(30) == 0
    assert _first_appearances(kafka_servers, topic) == list(range(1, 52))
