"""The publisher into memory: what it adds for tests, and the hash that it shares with Kafka's clients."""

from __future__ import annotations

import pytest

from milepost.producer import testing
from milepost.producer.testing import MemoryPublisher
from milepost.schemas import DeliveryFailed
from milepost.schemas.partitioning import murmur2
from tests.producer.helpers import created, steps, wait_until


def test_a_stall_holds_events_back_and_resume_delivers_them_in_order() -> None:
    publisher = MemoryPublisher()
    publisher.stall()
    receipts = [publisher.publish(created(number)) for number in range(10)]
    assert publisher.records == []
    assert not receipts[0].done()
    publisher.resume()
    assert [receipt.result(0).offset for receipt in receipts] == list(range(10))
    assert steps(publisher.records, b"t/s") == list(range(10))


def test_fail_next_fails_so_many_and_tells() -> None:
    told: list[DeliveryFailed] = []
    publisher = MemoryPublisher(on_failure=told.append)
    publisher.fail_next("TOPIC_AUTHORIZATION_FAILED", 2)
    receipts = [publisher.publish(created(number)) for number in range(3)]
    for receipt in receipts[:2]:
        with pytest.raises(DeliveryFailed, match="TOPIC_AUTHORIZATION_FAILED"):
            receipt.result(0)
    assert receipts[2].result(0).offset == 0
    wait_until(lambda: len(told) == 2)
    assert publisher.stats().failed_by_reason == {"TOPIC_AUTHORIZATION_FAILED": 2}


def test_times_never_go_back() -> None:
    publisher = MemoryPublisher()
    for number in range(50):
        publisher.publish(created(number, f"s{number}"))
    times = [record.timestamp for record in publisher.records]
    assert times == sorted(times)


# from the tests of Apache Kafka's UtilsTest.testMurmur2
@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_javas(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected & 0xFFFFFFFF


def test_what_is_exported() -> None:
    assert testing.__all__ == sorted(testing.__all__)
