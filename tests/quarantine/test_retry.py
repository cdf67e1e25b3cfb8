"""`retry`: a record that this version reads as valid is applied where the log's order allows it, and only there."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import pairwise
from threading import Thread

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from milepost.consumer.database import connect
from milepost.consumer.materializer import Materializer, become_writer
from milepost.consumer.quarantine import dismiss, operator
from milepost.consumer.records import LogRecord
from milepost.consumer.retry import Retried, Retry, RetryResult
from milepost.schemas import DEFAULT_TOPIC, Event, Fenced, Position, SessionDeleted
from tests.fixtures.commands import wait_until
from tests.fixtures.dump import Dump, dump, empty
from tests.fixtures.strategies import cuts, events
from tests.fixtures.view import PARTITIONS, FakeLog, bind_log
from tests.quarantine.helpers import NOON, appended, created, quarantined, states, unknown_to_an_older_version


class View:
    """A view, a consumer of it, and an operator beside it."""

    def __init__(self, database: str) -> None:
        self.database = database
        bind_log(database)
        self.consumer = Materializer(database, DEFAULT_TOPIC)
        self.consumer.take(range(PARTITIONS))

    def apply(self, records: Sequence[LogRecord]) -> int:
        """Apply as the consumer's loop does: once fenced, from the position as it is. Returns how often it was fenced."""
        fenced = 0
        while True:
            try:
                self.consumer.apply(records)
            except Fenced:
                fenced += 1
                positions = self.consumer.take(range(PARTITIONS))
                assert all(positions[record.partition] <= record.offset for record in records)
            else:
                return fenced

    def retry(self, records: Iterable[LogRecord]) -> list[RetryResult]:
        with closing(connect(self.database)) as connection:
            become_writer(connection)
            return list(Retry(connection).run([position(record) for record in records]))

    def close(self) -> None:
        self.consumer.close()


@pytest.fixture
def view(database: str) -> Iterator[View]:
    made = View(database)
    yield made
    made.close()


def noted(view: View) -> list[tuple[object, ...]]:
    """Status, note, whether the operator is named, and whether it was just now, of what stands in the quarantine."""
    with closing(connect(view.database)) as connection:
        return connection.execute(
            "select status, note, coalesce(changed_by = %s, false), "
            "coalesce(changed_at between now() - interval '1 minute' and now(), false) "
            'from milepost.quarantine order by partition, "offset"',
            [operator(connection)],
        ).fetchall()


def position(record: LogRecord) -> Position:
    return Position(DEFAULT_TOPIC, record.partition, record.offset)


def replayed(database: str, records: Sequence[LogRecord]) -> Dump:
    """What a replay from zero holds."""
    fresh = View(database)
    fresh.apply(records)
    fresh.close()
    return dump(database)


def without_quarantine(found: Dump) -> Dump:
    return {table: rows for table, rows in found.items() if table != "quarantine"}


def test_the_last_event_of_its_session(view: View, other_database: str) -> None:
    log = FakeLog()
    records = appended(log, range(60))
    other = appended(log, range(100, 105), session="other")
    view.apply([*records[:-1], unknown_to_an_older_version(records[-1]), *other])
    (result,) = view.retry(records[-1:])
    assert (result.position, result.result, result.detail) == (
        position(records[-1]),
        Retried.APPLIED,
        "outcome: applied",
    )
    assert without_quarantine(dump(view.database)) == without_quarantine(replayed(other_database, [*records, *other]))
    assert quarantined(view.database) == [(records[-1].partition, records[-1].offset, "unknown_kind", "retried")]
    assert states(view.database)[-1] == b'{"number": 59}'


def test_a_session_of_its_own(view: View, other_database: str) -> None:
    (record,) = records = appended(FakeLog(), [1])
    view.apply([unknown_to_an_older_version(record)])
    assert [result.result for result in view.retry(records)] == [Retried.APPLIED]
    assert without_quarantine(dump(view.database)) == without_quarantine(replayed(other_database, records))


def test_a_deletion(view: View, other_database: str) -> None:
    log = FakeLog()
    records = [*appended(log, range(3)), log.append(SessionDeleted(tenant_id="t", session_id="s", deleted_at=NOON))]
    view.apply([*records[:-1], unknown_to_an_older_version(records[-1])])
    assert len(states(view.database)) == 3
    assert [result.result for result in view.retry(records[-1:])] == [Retried.APPLIED]
    assert states(view.database) == []
    assert without_quarantine(dump(view.database)) == without_quarantine(replayed(other_database, records))


def test_too_late_when_its_session_went_on(view: View) -> None:
    records = appended(FakeLog(), range(3))
    view.apply([records[0], unknown_to_an_older_version(records[1]), records[2]])
    before = dump(view.database)
    (result,) = view.retry([records[1]])
    assert result.result is Retried.TOO_LATE
    assert f"the event at {records[2].partition}@{records[2].offset} of the same session" in result.detail
    assert "replay into an empty database" in result.detail
    assert without_quarantine(dump(view.database)) == without_quarantine(before)
    assert noted(view) == [("open", f"too_late: {result.detail}", True, True)]


def test_not_before_the_one_that_stands_before_it(view: View) -> None:
    records = [unknown_to_an_older_version(record) for record in appended(FakeLog(), range(3))]
    view.apply(records)
    (result,) = view.retry([records[1]])
    assert result.result is Retried.NOT_YET
    assert f"the record at {records[0].partition}@{records[0].offset} of the same session" in result.detail
    assert noted(view)[1] == ("open", f"not_yet: {result.detail}", True, True)
    # together they are taken in the order of the log, however they are named
    assert [result.result for result in view.retry([records[2], records[0], records[1]])] == [Retried.APPLIED] * 3
    assert states(view.database) == [b'{"number": 0}', b'{"number": 1}', b'{"number": 2}']


def test_one_before_it_that_is_no_event_does_not_matter(view: View) -> None:
    log = FakeLog()
    bad = log.append_raw(b"t/s", b"no event", [])
    good = unknown_to_an_older_version(log.append(created(1)))
    view.apply([bad, good])
    assert [result.result for result in view.retry([good])] == [Retried.APPLIED]
    assert [row[2:] for row in quarantined(view.database)] == [
        ("not_a_cloudevent", "open"),
        ("unknown_kind", "retried"),
    ]


def test_what_is_still_no_event_stays_open_with_this_versions_reason(view: View, other_database: str) -> None:
    record = FakeLog().append_raw(b"t/s", b"no event", [])
    view.apply([unknown_to_an_older_version(record)])
    (result,) = view.retry([record])
    assert result.result is Retried.INVALID
    assert result.detail == "not_a_cloudevent: expected the header ce_specversion, found none"
    assert noted(view) == [("open", f"invalid: {result.detail}", True, True)]
    assert quarantined(view.database) == [(record.partition, record.offset, "not_a_cloudevent", "open")]
    assert without_quarantine(dump(view.database)) == without_quarantine(replayed(other_database, [record]))


def test_a_dismissed_one_keeps_why_it_was_dismissed(view: View) -> None:
    record = FakeLog().append_raw(b"t/s", b"no event", [])
    view.apply([record])
    with closing(connect(view.database)) as connection:
        assert dismiss(connection, position(record), "known")
    assert [result.result for result in view.retry([record])] == [Retried.INVALID]
    assert noted(view) == [("dismissed", "known", True, True)]


def test_what_postgres_still_refuses_stays_open(view: View) -> None:
    record = FakeLog().append(created(1, step=13))
    with psycopg.connect(view.database, autocommit=True) as connection:
        connection.execute("alter table milepost.history add constraint unlucky check (step is distinct from 13)")
        view.apply([record])
        before = dump(view.database)
        assert [result.result for result in view.retry([record])] == [Retried.INVALID]
        assert without_quarantine(dump(view.database)) == without_quarantine(before)
        connection.execute("alter table milepost.history drop constraint unlucky")
    assert [result.result for result in view.retry([record])] == [Retried.APPLIED]
    assert [row[2:] for row in quarantined(view.database)] == [("refused_by_postgres", "retried")]


def test_twice_and_unknown(view: View) -> None:
    (record,) = appended(FakeLog(), [1])
    view.apply([unknown_to_an_older_version(record)])
    view.retry([record])
    before = dump(view.database)
    assert [result.result for result in view.retry([record])] == [Retried.ALREADY]
    assert dump(view.database) == before
    with closing(connect(view.database)) as connection:
        unknown = [Position("another.topic", record.partition, record.offset), Position("", 3, 99), Position("", 77, 0)]
        assert [result.result for result in Retry(connection).run(unknown)] == [Retried.NOT_FOUND] * 3


def test_who_and_when(view: View) -> None:
    (record,) = appended(FakeLog(), [1])
    view.apply([unknown_to_an_older_version(record)])
    view.retry([record])
    with closing(connect(view.database)) as connection:
        row = connection.execute(
            "select changed_by, changed_at between now() - interval '1 minute' and now(), note from milepost.quarantine"
        ).fetchone()
        assert row == (operator(connection), True, "outcome: applied")
        assert operator(connection).endswith(" as postgres")


def test_a_consumer_that_remembers_the_session_notices(view: View, other_database: str) -> None:
    records = appended(FakeLog(), range(4))
    view.apply([records[0], unknown_to_an_older_version(records[1])])
    view.retry([records[1]])
    assert view.apply(records[2:3]) == 1
    assert view.apply(records[3:]) == 0
    assert without_quarantine(dump(view.database)) == without_quarantine(replayed(other_database, records))


def test_a_publisher_that_is_met_late(view: View, other_database: str) -> None:
    """Its row must say what a replay would say: counts, first and last time."""
    log = FakeLog()
    headers = [("ce_publisherid", b"%032x" % 7)]
    records = []
    for number in range(3):
        made = log.append(created(number, f"s{number}"))
        raw = log.append_raw(made.key, made.value, [*made.headers, *headers, ("ce_publisherseq", b"%d" % (number + 1))])
        records += [made, raw]
    first = records[1]
    view.apply([unknown_to_an_older_version(record) if record is first else record for record in records])
    assert [result.result for result in view.retry([first])] == [Retried.APPLIED]
    assert without_quarantine(dump(view.database)) == without_quarantine(replayed(other_database, records))


def waits_for_a_lock(database: str) -> bool:
    with psycopg.connect(database) as connection:
        row = connection.execute(
            "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
        ).fetchone()
    return row == (1,)


def test_a_consumer_in_the_middle_of_a_batch_is_waited_for(view: View) -> None:
    records = appended(FakeLog(), range(3))
    view.apply([records[0], unknown_to_an_older_version(records[1])])
    results: list[RetryResult] = []
    thread = Thread(target=lambda: results.extend(view.retry([records[1]])))
    with view.consumer.connection().transaction():
        view.apply(records[2:])
        thread.start()
        wait_until(lambda: waits_for_a_lock(view.database), "the retry to wait")
    thread.join()
    assert [result.result for result in results] == [Retried.TOO_LATE]
    assert states(view.database) == [b'{"number": 0}', b'{"number": 2}']


def test_a_consumer_waits_for_a_retry_and_is_fenced_then(view: View, other_database: str) -> None:
    records = appended(FakeLog(), range(3))
    view.apply([records[0], unknown_to_an_older_version(records[1])])
    fenced: list[int] = []
    thread = Thread(target=lambda: fenced.append(view.apply(records[2:])))
    with closing(connect(view.database)) as connection:
        with connection.transaction():
            list(Retry(connection).run([position(records[1])]))
            thread.start()
            wait_until(lambda: waits_for_a_lock(view.database), "the consumer to wait")
        thread.join()
    assert fenced == [1]
    assert without_quarantine(dump(view.database)) == without_quarantine(replayed(other_database, records))


law = settings(
    max_examples=int(os.environ.get("MILEPOST_LAW_EXAMPLES", "30")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@law
@given(st.data())
def test_a_retried_view_equals_a_replay(database: str, other_database: str, data: st.DataObject) -> None:
    """Whatever was unknown, whenever it is retried: sessions of which nothing was refused are as in a replay from zero."""
    log = FakeLog()
    happened: list[Event] = data.draw(st.lists(events(), min_size=1, max_size=25))
    records = [log.append(event) for event in happened]
    unknown = data.draw(st.sets(st.integers(0, len(records) - 1), min_size=1, max_size=6))
    bounds = data.draw(cuts(len(records)))
    empty(database)
    empty(other_database)
    view, waiting, refused = View(database), deque(sorted(unknown)), set[int]()
    for start, end in pairwise(bounds):
        view.apply(
            [
                unknown_to_an_older_version(record) if number in unknown else record
                for number, record in enumerate(records[start:end], start)
            ]
        )
        tried = (
            [number for number in waiting if number < end] if data.draw(st.booleans()) or end == len(records) else []
        )
        results = view.retry([records[number] for number in tried])
        applied = {result.position for result in results if result.result is Retried.APPLIED}
        waiting = deque(number for number in waiting if position(records[number]) not in applied)
        refused = set(waiting)
    view.close()
    expected, found = replayed(other_database, records), dump(database)
    if not refused:
        assert without_quarantine(found) == without_quarantine(expected)
    touched = {(records[n].event.tenant_id, records[n].event.session_id) for n in refused}  # type: ignore[union-attr]
    for table in ("sessions", "checkpoints", "history"):
        assert [row for row in found[table] if row[:2] not in touched] == [
            row for row in expected[table] if row[:2] not in touched
        ]
