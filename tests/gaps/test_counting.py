"""What is missing of a publisher is exact: a record is counted once, whatever became of it, and a lost one is not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import UUID, uuid4

import psycopg
import pytest

from milepost.consumer import queries
from milepost.consumer.records import LogRecord
from milepost.producer.testing import MemoryPublisher
from milepost.schemas import CheckpointCreated, SessionDeleted
from milepost.schemas.wire import Headers
from tests.fixtures.dump import dump
from tests.fixtures.view import FakeLog, PostgresView
from tests.producer.helpers import created


class Counted:
    """A log, a view of it, and publishers whose records go into the log by hand."""

    def __init__(self, database: str) -> None:
        self.log = FakeLog()
        self.view = PostgresView(database)
        self.database = database

    def send(self, publisher: MemoryPublisher, *indices: int) -> list[LogRecord]:
        """Put records of the publisher into the log; by their places in what it made."""
        records = publisher.records
        return [self.put(records[index].key, records[index].value, records[index].headers) for index in indices]

    def put(self, key: bytes | None, value: bytes | None, headers: Headers) -> LogRecord:
        return self.log.append_raw(key, value, headers)

    def apply(self, records: Sequence[LogRecord] | None = None) -> None:
        self.view.apply(self.log.records if records is None else records)

    def missing(self) -> dict[UUID, tuple[int, int]]:
        """Events seen and missing of each publisher."""
        with psycopg.connect(self.database) as connection:
            rows = connection.execute(queries.load("gaps")["publishers"]).fetchall()
        return {publisher: (events, highest - events) for publisher, _, events, highest, *_ in rows}


@pytest.fixture
def counted(database: str) -> Iterator[Counted]:
    made = Counted(database)
    yield made
    made.view.close()


def _published(count: int, sessions: int = 3) -> MemoryPublisher:
    publisher = MemoryPublisher()
    for number in range(count):
        publisher.publish(created(number, f"s{number % sessions}"))
    return publisher


def test_nothing_is_missing_where_nothing_was_lost(counted: Counted) -> None:
    publisher = _published(50, 7)
    counted.send(publisher, *range(50))
    counted.apply()
    assert counted.missing() == {publisher.stats().publisher_id: (50, 0)}


@pytest.mark.parametrize("lost", [{0}, {10}, {3, 4, 5, 20}, set(range(10, 48))])
def test_what_was_lost_is_missing_to_the_event(counted: Counted, lost: set[int]) -> None:
    publisher = _published(50, 7)
    counted.send(publisher, *[index for index in range(50) if index not in lost])
    counted.apply()
    assert counted.missing() == {publisher.stats().publisher_id: (50 - len(lost), len(lost))}


def test_the_last_one_is_missed_when_a_later_one_comes(counted: Counted) -> None:
    publisher = _published(11, 1)
    counted.apply(counted.send(publisher, *range(9)))
    assert counted.missing()[publisher.stats().publisher_id] == (9, 0)
    counted.apply(counted.send(publisher, 10))
    assert counted.missing()[publisher.stats().publisher_id] == (10, 1)


@pytest.mark.parametrize("batch", [1, 7, 1_000])
def test_records_that_are_sent_again_count_once(counted: Counted, batch: int) -> None:
    publisher = _published(30, 2)
    counted.send(publisher, *range(20), *range(5, 25), *range(24, 30), *range(30))
    for start in range(0, len(counted.log.records), batch):
        counted.apply(counted.log.records[start : start + batch])
    assert counted.missing() == {publisher.stats().publisher_id: (30, 0)}


def test_an_event_published_twice_has_two_numbers_and_both_count(counted: Counted) -> None:
    publisher = MemoryPublisher()
    event = created(1)
    publisher.publish(event)
    publisher.publish(event)  # the same event id: a duplicate
    publisher.publish(
        CheckpointCreated(tenant_id="t", session_id="s", state=event.state, checkpoint_id=event.checkpoint_id)
    )
    other = CheckpointCreated(tenant_id="t", session_id="s", state=b"{}", event_id=event.event_id)
    publisher.publish(other)  # the same event id, another state: a conflict
    counted.send(publisher, 0, 1, 2, 3)
    counted.send(publisher, 0, 1, 2, 3)
    counted.apply()
    assert _outcomes(counted) == ["applied", "duplicate", "duplicate", "conflict", *["duplicate"] * 3, "conflict"]
    assert counted.missing() == {publisher.stats().publisher_id: (4, 0)}


def test_stale_events_are_not_missing(counted: Counted) -> None:
    publisher = MemoryPublisher()
    late = created(0)
    publisher.publish(SessionDeleted(tenant_id="t", session_id="s"))
    publisher.publish(late)
    counted.send(publisher, 0, 1, 1)
    counted.apply()
    assert _outcomes(counted) == ["applied", "stale", "duplicate"]
    assert counted.missing() == {publisher.stats().publisher_id: (2, 0)}


def test_records_in_the_quarantine_are_not_missing(counted: Counted) -> None:
    publisher = _published(6, 1)
    records = publisher.records
    counted.send(publisher, 0, 1)
    for _ in range(2):  # sent twice, and twice in the quarantine
        counted.put(records[2].key, b"broken", records[2].headers)
        counted.put(b"t/other", records[3].value, [*records[3].headers, ("ce_source", b"twice")])
    counted.send(publisher, 4)
    counted.apply()
    # by their key the two went into partitions of their own, as a publisher's records never do: both count all the same
    assert counted.missing() == {publisher.stats().publisher_id: (5, 0)}


def test_a_record_whose_number_can_not_be_read_is_missing(counted: Counted) -> None:
    publisher = _published(3, 1)
    counted.send(publisher, 0)
    headers = [each for each in publisher.records[1].headers if each[0] != "ce_publisherseq"]
    for broken in ([], [("ce_publisherseq", b"x")], [("ce_publisherseq", b"2"), ("ce_publisherseq", b"2")]):
        counted.put(b"t/s0", b"broken", [*headers, *broken])
    counted.send(publisher, 2)
    counted.apply()
    assert counted.missing() == {publisher.stats().publisher_id: (2, 1)}


def test_a_publisher_that_starts_again_counts_from_one(counted: Counted) -> None:
    first, second = _published(10, 1), _published(5, 1)
    counted.send(first, *range(8))
    counted.send(second, 0, 1, 4)
    counted.send(first, 7)
    counted.apply()
    assert counted.missing() == {first.stats().publisher_id: (8, 0), second.stats().publisher_id: (3, 2)}


def test_a_view_is_the_same_for_every_size_of_batch(counted: Counted, other_database: str) -> None:
    publisher = _published(40, 5)
    counted.send(publisher, *range(20), *range(10, 30), *range(33, 40))
    counted.put(b"t/s0", b"broken", publisher.records[-1].headers)
    counted.apply()
    other = PostgresView(other_database)
    for record in counted.log.records:
        other.apply([record])
    other.close()
    assert dump(counted.database) == dump(other_database)


def test_events_without_numbers_count_for_nobody(counted: Counted) -> None:
    counted.log.append(created(0))
    counted.put(b"t/s", b"broken", [("ce_publisherid", str(uuid4()).encode())])
    counted.apply()
    assert counted.missing() == {}


def _outcomes(counted: Counted) -> list[str]:
    with psycopg.connect(counted.database) as connection:
        return [row[0] for row in connection.execute("select outcome::text from milepost.history order by seq")]
