"""One contract, two publishers: what holds for the real one holds for its twin in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from hashlib import sha256
from uuid import uuid4

import pytest

from milepost.producer import CheckpointPublisher
from milepost.producer.testing import MemoryPublisher, MemoryRecord
from milepost.schemas import (
    CheckpointCreated,
    DeliveryFailed,
    InvalidEvent,
    InvalidSetting,
    Position,
    PublisherClosed,
    SessionDeleted,
    decode,
)
from tests.producer.helpers import NOBODY, PARTITIONS, created, header, read_log, wait_until


class Subject:
    """A publisher, the log behind it, and one of the same kind whose log is away."""

    def __init__(
        self,
        publisher: CheckpointPublisher,
        records: Callable[[], list[MemoryRecord]],
        stranded: Callable[..., CheckpointPublisher],
    ) -> None:
        self.publisher = publisher
        self.records = records
        self.stranded = stranded


def _memory(topic: str) -> Subject:
    publisher = MemoryPublisher(topic=topic, source="/runtimes/test", partitions=PARTITIONS)

    def stranded(**options: object) -> CheckpointPublisher:
        other = MemoryPublisher(topic=topic, **options)  # type: ignore[arg-type]
        other.stall()
        return other

    return Subject(publisher, lambda: publisher.records, stranded)


def _real(kafka_servers: str, topic: str) -> Subject:
    publisher = CheckpointPublisher(kafka_servers, topic=topic, source="/runtimes/test")

    def stranded(**options: object) -> CheckpointPublisher:
        return CheckpointPublisher(NOBODY, topic=topic, **options)  # type: ignore[arg-type]

    return Subject(publisher, lambda: read_log(kafka_servers, topic), stranded)


@pytest.fixture(params=["memory", "kafka"])
def subject(request: pytest.FixtureRequest, kafka_servers: str, topic: str) -> Iterator[Subject]:
    made = _memory(topic) if request.param == "memory" else _real(kafka_servers, topic)
    yield made
    made.publisher.close(0)


def test_a_checkpoint_is_in_the_log_byte_for_byte(subject: Subject, topic: str) -> None:
    event = CheckpointCreated(
        tenant_id="acme",
        session_id="s/1 ü",
        state=b' {"$type":0,"b":1E5,"a":-0, "b":"\\ud800\\u0000"}\n',
        parent_id="p",
        run_id=uuid4(),
        step=3,
        next_node="n",
        framework_version="1.2",
        schema_version=4,
        pinned=True,
        labels={"w": "x"},
    )
    receipt = subject.publisher.publish(event)
    position = receipt.result(15)
    (record,) = subject.records()
    assert record.position == position
    assert (position.topic, position.offset) == (topic, 0)
    assert record.value == event.state
    assert record.key == "acme/s/1 ü".encode()
    envelope = decode(record.key, record.value, record.headers)
    assert envelope.event_id == event.event_id.bytes == receipt.event_id.bytes
    assert envelope.checkpoint_id == event.checkpoint_id == receipt.checkpoint_id
    assert envelope.source == "/runtimes/test"
    assert header(record, "ce_statesha256") == sha256(event.state).hexdigest()
    assert (envelope.publisher_id, envelope.publisher_seq) == (subject.publisher.stats().publisher_id.bytes, 1)
    assert record.timestamp > 1_700_000_000_000


def test_a_deletion_has_no_value_and_its_receipt_no_checkpoint(subject: Subject) -> None:
    receipt = subject.publisher.publish(SessionDeleted(tenant_id="t", session_id="s", reason="asked"))
    assert receipt.checkpoint_id is None
    assert receipt.result(15).offset == 0
    (record,) = subject.records()
    assert record.value is None
    assert header(record, "ce_reason") == "asked"


def test_events_are_numbered_from_one_in_the_order_of_the_log(subject: Subject) -> None:
    receipts = [subject.publisher.publish(created(number, f"s{number % 7}")) for number in range(200)]
    assert subject.publisher.flush(15) == 0
    records = subject.records()
    by_partition: dict[int, list[int]] = {}
    for record in records:
        by_partition.setdefault(record.position.partition, []).append(int(header(record, "ce_publisherseq") or 0))
    assert all(numbers == sorted(numbers) for numbers in by_partition.values())
    assert sorted(number for numbers in by_partition.values() for number in numbers) == list(range(1, 201))
    assert {receipt.result(0) for receipt in receipts} == {record.position for record in records}


@pytest.mark.parametrize("kind", ["latin", "multibyte"])
def test_a_session_goes_to_the_partition_that_murmur2_gives(subject: Subject, kind: str) -> None:
    twin = MemoryPublisher(partitions=PARTITIONS)
    for number in range(40):
        event = created(number, f"{'s' if kind == 'latin' else 'ß€𝄞'}{'-' * (number % 5)}{number}")
        there = subject.publisher.publish(event)
        assert twin.publish(event).result(0).partition == there.result(15).partition


def test_a_broken_event_is_refused_and_gets_no_number(subject: Subject) -> None:
    for broken in (
        CheckpointCreated(tenant_id="t", session_id="s", state=b'{"a": NaN}'),
        CheckpointCreated(tenant_id="no/slash", session_id="s", state=b"{}"),
        CheckpointCreated(tenant_id="t", session_id="s", state="{}"),  # type: ignore[arg-type]
        SessionDeleted(tenant_id="t", session_id=""),
        "no event",
    ):
        with pytest.raises(InvalidEvent):
            subject.publisher.publish(broken)  # type: ignore[arg-type]
    assert subject.publisher.stats().published == 0
    subject.publisher.publish(created()).result(15)
    assert [header(record, "ce_publisherseq") for record in subject.records()] == ["1"]


def test_await_works_for_many_waiters_and_in_any_loop(subject: Subject) -> None:
    async def wait_for_many(count: int) -> set[Position]:
        receipt = subject.publisher.publish(created())
        return set(await asyncio.gather(*(_later(receipt) for _ in range(count))))

    async def _later(receipt: object) -> Position:
        position: Position = await receipt  # type: ignore[misc]
        return position

    assert len(asyncio.run(asyncio.wait_for(wait_for_many(50), 15))) == 1
    assert len(asyncio.run(asyncio.wait_for(wait_for_many(1), 15))) == 1


def test_close_is_final_and_may_be_repeated(subject: Subject) -> None:
    with subject.publisher as publisher:
        receipt = publisher.publish(created())
    assert receipt.done()
    assert receipt.result(0).offset == 0
    publisher.close()
    publisher.close(0)
    with pytest.raises(PublisherClosed):
        publisher.publish(created())
    assert publisher.flush(1) == 0
    stats = publisher.stats()
    assert (stats.published, stats.delivered, stats.failed, stats.under_way) == (1, 1, 0, 0)
    assert "closed" in repr(publisher)


def test_a_full_queue_drops_counts_and_tells_once_each(subject: Subject) -> None:
    told: list[DeliveryFailed] = []
    with subject.stranded(queue_bytes=30_000, on_failure=told.append) as publisher:
        receipts = [publisher.publish(created(number, size=7_000)) for number in range(10)]
        dropped = [receipt for receipt in receipts if receipt.done()]
        assert receipts[3:] == dropped
        for receipt in dropped:
            with pytest.raises(DeliveryFailed, match="queue_full") as caught:
                receipt.result(0)
            assert (caught.value.event_id, caught.value.reason) == (receipt.event_id, "queue_full")
        wait_until(lambda: len(told) == 7)
        stats = publisher.stats()
        assert (stats.published, stats.failed, stats.under_way) == (10, 7, 3)
        assert stats.failed_by_reason == {"queue_full": 7}
        assert 21_000 < stats.under_way_bytes <= 30_000
        publisher.close(0)
    assert [failure.event_id for failure in told[:7]] == [receipt.event_id for receipt in dropped]
    assert sorted(failure.reason for failure in told) == ["closed"] * 3 + ["queue_full"] * 7


def test_what_is_left_at_close_has_failed_as_closed(subject: Subject) -> None:
    publisher = subject.stranded()
    receipts = [publisher.publish(created(number)) for number in range(5)]
    with pytest.raises(TimeoutError):
        receipts[0].result(0.01)
    assert not receipts[0].done()
    assert publisher.flush(0.01) == 5
    publisher.close(0.1)
    for receipt in receipts:
        with pytest.raises(DeliveryFailed, match="closed"):
            receipt.result(0)
    stats = publisher.stats()
    assert (stats.failed, stats.under_way, stats.under_way_bytes) == (5, 0, 0)


def test_an_exception_in_on_failure_harms_nothing(subject: Subject, caplog: pytest.LogCaptureFixture) -> None:
    told: list[DeliveryFailed] = []

    def raising(failure: DeliveryFailed) -> None:
        told.append(failure)
        raise ValueError("from the callback")

    with subject.stranded(queue_bytes=1, on_failure=raising) as publisher:
        for number in range(3):
            publisher.publish(created(number))
        wait_until(lambda: len(told) == 3)
        assert publisher.stats().failed == 3
    assert "ValueError: from the callback" in caplog.text


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"topic": "no topic"}, "topic"),
        ({"source": "no reference"}, "source"),
        ({"queue_bytes": 0}, "queue_bytes"),
        ({"on_failure": "x"}, "on_failure"),
        ({"kafka": {"acks": 1}}, "acks"),
    ],
)
def test_settings_are_checked_alike(subject: Subject, options: dict[str, object], named: str) -> None:
    with pytest.raises(InvalidSetting, match=named):
        type(subject.publisher)(NOBODY, **options)  # type: ignore[arg-type]
