"""A record that Postgres refuses: it alone goes to the quarantine, at a bounded price, and only when it is at fault."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from milepost.consumer.materializer import Materializer
from milepost.consumer.records import LogRecord
from milepost.schemas import DEFAULT_TOPIC, DatabaseUnavailable, MilepostError
from tests.fixtures.dump import dump
from tests.fixtures.view import PARTITIONS, FakeLog, bind_log
from tests.quarantine.helpers import created, quarantined, states

BATCH = 1_000
LIMIT = 12  # the one that is always needed, and 11 more

# each refuses the checkpoints whose step is 13; what Postgres says of the place differs
CHECK = "alter table milepost.checkpoints add constraint unlucky check (step is distinct from 13)"
IN_HISTORY = "alter table milepost.history add constraint unlucky check (step is distinct from 13)"
FUNCTION = """
create function milepost.test_refuse() returns trigger language plpgsql as $$
begin
    if {found} then
        raise exception 'unlucky' using errcode = '{code}';
    end if;
    return null;
end $$
"""
FOUND = "exists (select from milepost.checkpoints where step = 13)"
AFTER_STATEMENT = """
create trigger refuse after insert on milepost.checkpoints
    for each statement execute function milepost.test_refuse()
"""
AT_COMMIT = """
create constraint trigger refuse after insert on milepost.checkpoints deferrable initially deferred
    for each row execute function milepost.test_refuse()
"""


def refuse_with(trigger: str, code: str = "23514", found: str = FOUND) -> list[str]:
    return [FUNCTION.format(found=found, code=code), trigger]


WAYS = {
    "a check at a line of COPY": [CHECK],
    "a check at a line of another COPY": [IN_HISTORY],
    "a trigger after the statement": refuse_with(AFTER_STATEMENT),
    "a trigger at the commit": refuse_with(AT_COMMIT),
}


@pytest.fixture
def writer(database: str) -> Iterator[Materializer]:
    bind_log(database)
    materializer = Materializer(database, DEFAULT_TOPIC)
    materializer.take(range(PARTITIONS))
    yield materializer
    materializer.close()


def run(database: str, *statements: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def batch(log: FakeLog, bad: set[int], number: int = BATCH, sessions: int = 7) -> list[LogRecord]:
    """Records over a few sessions; each in `bad` has the step that is refused."""
    return [
        log.append(created(each, f"s{each % sessions}", step=13 if each in bad else 0, state=b'{"n": %d}' % each))
        for each in range(number)
    ]


@pytest.mark.parametrize("bad", [{0}, {500}, {BATCH - 1}], ids=["first", "middle", "last"])
@pytest.mark.parametrize("way", WAYS)
def test_one_bad_record_of_a_thousand(database: str, writer: Materializer, way: str, bad: set[int]) -> None:
    run(database, *WAYS[way], "update milepost.retention_policies set newest = 100000")
    writer.take(range(PARTITIONS))
    records = batch(FakeLog(), bad)
    applied = writer.apply(records)
    (refused,) = [records[each] for each in bad]
    assert quarantined(database) == [(refused.partition, refused.offset, "refused_by_postgres", "open")]
    assert applied.quarantined == 1
    assert sum(applied.outcomes.values()) == applied.written == BATCH - 1
    assert applied.transactions <= LIMIT
    for session in range(7):
        expected = [b'{"n": %d}' % each for each in range(session, BATCH, 7) if each not in bad]
        assert states(database, f"s{session}") == expected


@pytest.mark.parametrize("way", WAYS)
def test_transactions_as_the_server_sees_them(database: str, writer: Materializer, way: str, tmp_path: Path) -> None:
    run(database, *WAYS[way])
    with (tmp_path / "trace").open("w") as trace:
        writer.connection().pgconn.trace(trace.fileno())
        applied = writer.apply(batch(FakeLog(), {990}))
        writer.connection().pgconn.untrace()
    begun = re.findall(r'Query\s.*"BEGIN', (tmp_path / "trace").read_text(errors="replace"))
    assert len(begun) == applied.transactions == 2


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("bad", [{3, 4}, {0, 1, 2, 3, 4, 5, 98, 99}, set(range(100))], ids=["two", "eight", "all"])
def test_many_bad_records(database: str, writer: Materializer, way: str, bad: set[int]) -> None:
    run(database, *WAYS[way])
    records = batch(FakeLog(), bad, number=100)
    applied = writer.apply(records)
    places = sorted((records[each].partition, records[each].offset) for each in bad)
    assert [row[:2] for row in quarantined(database)] == places
    assert {row[2] for row in quarantined(database)} == {"refused_by_postgres"}
    assert sum(applied.outcomes.values()) == 100 - len(bad)
    assert applied.transactions <= LIMIT


@pytest.mark.parametrize("way", WAYS)
def test_the_view_is_the_same_as_record_by_record(
    database: str, other_database: str, writer: Materializer, way: str
) -> None:
    records = batch(FakeLog(), {5, 40, 41}, number=60, sessions=2)
    run(database, *WAYS[way])
    writer.apply(records[:50])
    writer.apply(records[50:])  # what is remembered of the sessions must be what was written
    assert writer.positions == {partition: sum(r.partition == partition for r in records) for partition in range(4)}
    run(other_database, *WAYS[way])
    bind_log(other_database)
    single = Materializer(other_database, DEFAULT_TOPIC)
    single.take(range(PARTITIONS))
    for record in records:
        single.apply([record])
    single.close()
    assert dump(database) == dump(other_database)


def test_the_sentence_says_what_postgres_said(database: str, writer: Materializer) -> None:
    run(database, CHECK)
    writer.apply(batch(FakeLog(), {2}, number=5))
    with psycopg.connect(database) as connection:
        row = connection.execute("select detail, value, convert_from(key, 'UTF8') from milepost.quarantine").fetchone()
    detail = 'Postgres refused the row: new row for relation "checkpoints" violates check constraint "unlucky"'
    assert row == (detail, b'{"n": 2}', "t/s2")


PASSING = ["53100", "53200", "55P03", "57014", "40001", "40P01", "25006", "58030"]


@pytest.mark.parametrize("code", PASSING)
def test_what_is_not_about_the_record_quarantines_nothing(database: str, writer: Materializer, code: str) -> None:
    run(database, *refuse_with(AFTER_STATEMENT, code))
    records = batch(FakeLog(), {13}, number=20)
    before = dump(database)
    with pytest.raises(DatabaseUnavailable, match="unlucky"):
        writer.apply(records)
    assert dump(database) == before
    run(database, "drop trigger refuse on milepost.checkpoints")
    writer.take(range(PARTITIONS))
    assert sum(writer.apply(records).outcomes.values()) == 20
    assert quarantined(database) == []


@pytest.mark.parametrize("code", ["23505", "XX000", "P0001"])
def test_what_nobody_expected_stops_the_consumer(database: str, writer: Materializer, code: str) -> None:
    run(database, *refuse_with(AFTER_STATEMENT, code))
    before = dump(database)
    with pytest.raises(MilepostError, match="unlucky"):
        writer.apply(batch(FakeLog(), {13}, number=20))
    assert dump(database) == before


def test_a_full_disk_while_a_bad_record_is_sought_undoes_all(database: str, writer: Materializer) -> None:
    """The first time the trigger is about the record; at its fifth time the disk is full."""
    run(
        database,
        "create sequence milepost.test_times",
        "grant usage on sequence milepost.test_times to milepost_writer",
        *refuse_with(AFTER_STATEMENT),
        """
        create or replace function milepost.test_refuse() returns trigger language plpgsql as $$
        begin
            if nextval('milepost.test_times') >= 5 then
                raise exception 'no space left on device' using errcode = 'disk_full';
            elsif exists (select from milepost.checkpoints where step = 13) then
                raise exception 'unlucky' using errcode = 'check_violation';
            end if;
            return null;
        end $$
        """,
    )
    records = batch(FakeLog(), {60}, number=100)
    before = dump(database)
    with pytest.raises(DatabaseUnavailable, match="no space left"):
        writer.apply(records)
    assert dump(database) == before
    run(database, "drop trigger refuse on milepost.checkpoints")
    writer.take(range(PARTITIONS))
    assert sum(writer.apply(records).outcomes.values()) == 100


def test_a_lock_that_is_not_had_in_time(database: str, writer: Materializer) -> None:
    records = batch(FakeLog(), set(), number=3)
    writer.connection().execute("set lock_timeout = 100")
    with psycopg.connect(database) as other:
        other.execute("select from milepost.partitions for update")
        with pytest.raises(DatabaseUnavailable, match="lock timeout"):
            writer.apply(records)
    writer.take(range(PARTITIONS))
    assert sum(writer.apply(records).outcomes.values()) == 3


def test_a_quarantine_that_refuses_stops_the_consumer(database: str, writer: Materializer) -> None:
    run(database, CHECK, "alter table milepost.quarantine add constraint full_up check (false)")
    before = dump(database)
    records = batch(FakeLog(), {3}, number=20)
    with pytest.raises(MilepostError, match=f"@{records[3].offset}: .*full_up"):
        writer.apply(records)
    assert dump(database) == before
