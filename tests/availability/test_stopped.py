"""A consumer that is stopped in the middle of a COPY does not hold its partitions for ever, though Postgres sets it no limit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing

import psycopg
import pytest

from milepost.consumer import materializer, stopped
from milepost.consumer.database import connect
from milepost.schemas import CheckpointCreated, DatabaseUnavailable
from tests.availability.running import Lines
from tests.fixtures.commands import wait_until
from tests.fixtures.stopping import hold, hold_more, stop_in_copy
from tests.fixtures.view import bind_log
from tests.scale.ground import filled, heads, taken


def event() -> CheckpointCreated:
    return CheckpointCreated(tenant_id="acme", session_id="s", state=b"{}")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopped, "STOPPED_SECONDS", 0.3)
    monkeypatch.setattr(stopped, "_LOOK_SECONDS", 0.1)
    monkeypatch.setitem(materializer._WRITER_SETTINGS, "lock_timeout", "500ms")


@pytest.fixture
def holder(database: str) -> Iterator[psycopg.Connection]:
    """Another consumer's session."""
    with closing(connect(database)) as connection:
        yield connection


def state(database: str, process: int) -> tuple[str, str | None] | None:
    """What a session of Postgres is doing, None when it has ended."""
    with psycopg.connect(database) as connection:
        query = "select state, wait_event from pg_stat_activity where pid = %s"
        return connection.execute(query, [process]).fetchone()


def wait_until_it_waits(database: str, process: int, event: str) -> None:
    """Until Postgres has waited for its client long enough."""
    query = "select from pg_stat_activity where pid = %s and wait_event = %s and query_start < now() - interval '0.3 s'"
    with psycopg.connect(database, autocommit=True) as connection:
        wait_until(lambda: connection.execute(query, [process, event]).fetchone() is not None, f"{event}")


def test_it_is_ended_by_who_waits_for_its_partition(database: str, holder: psycopg.Connection, lines: Lines) -> None:
    log = filled(database, event())
    record = log.append(event())
    hold(holder, record.partition)
    process = holder.info.backend_pid
    with ExitStack() as undoing, closing(taken(database)) as consumer:
        stop_in_copy(holder, undoing)
        wait_until(lambda: state(database, process) == ("active", "ClientRead"), "the COPY to wait for its client")
        with pytest.raises(DatabaseUnavailable, match="lock timeout"):
            consumer.apply([record])
        wait_until(lambda: state(database, process) is None, "its end")
        consumer.take(consumer.positions)
        consumer.apply([record])
    told = lines.wait_for("holder_ended", 1).getMessage()
    assert f"Postgres' process {process} held partitions {record.partition}, and its client sent nothing more" in told
    assert [row[:2] for row in heads(database)] == [("s", 2)]


def test_others_are_left_alone(database: str, holder: psycopg.Connection) -> None:
    log = filled(database, event())
    record = log.append(event())
    with ExitStack() as undoing, closing(connect(database)) as elsewhere, closing(taken(database)) as consumer:
        # one holds the partition and is at work; another has stopped in a COPY, but holds a partition that is not ours
        consumer.release([record.partition + 1])
        hold(holder, record.partition)
        hold(elsewhere, record.partition + 1)
        stop_in_copy(elsewhere, undoing)
        with pytest.raises(DatabaseUnavailable, match="lock timeout"):
            consumer.apply([record])
        assert state(database, holder.info.backend_pid) == ("idle in transaction", "ClientRead")
        assert state(database, elsewhere.info.backend_pid) == ("active", "ClientRead")
        holder.execute("rollback")
        consumer.take(consumer.positions)
        consumer.apply([record])
    assert [row[:2] for row in heads(database)] == [("s", 2)]


@pytest.mark.parametrize("before", ["savepoint s", "savepoint s; savepoint t"])
def test_it_is_found_in_a_savepoint_too(database: str, holder: psycopg.Connection, before: str) -> None:
    """As when a batch is searched for the record that Postgres refuses."""
    bind_log(database)
    process = holder.info.backend_pid
    holder.execute(f"begin; {before}".encode())
    hold_more(holder, 1)
    with ExitStack() as undoing:
        stop_in_copy(holder, undoing)
        wait_until_it_waits(database, process, "ClientRead")
        stopped.end_stopped(database, [1])
        wait_until(lambda: state(database, process) is None, "its end")


def test_who_sends_slowly_is_left_alone(
    database: str, holder: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    bind_log(database)
    process = holder.info.backend_pid
    hold(holder, 1)
    with psycopg.connect(database, autocommit=True) as looking, ExitStack() as undoing:
        copy = stop_in_copy(holder, undoing)

        def received() -> int:
            query = "select bytes_processed from pg_stat_progress_copy where pid = %s"
            row = looking.execute(query, [process]).fetchone()
            return row[0] if row is not None else 0

        def send_more(_seconds: float) -> None:
            before = received()
            copy.write("b" * 200_000)
            wait_until(lambda: received() > before, "what was sent")

        wait_until_it_waits(database, process, "ClientRead")
        with monkeypatch.context() as patch:
            patch.setattr("milepost.consumer.stopped.sleep", send_more)
            stopped.end_stopped(database, [1])
        assert state(database, process) == ("active", "ClientRead")
        stopped.end_stopped(database, [1])
        wait_until(lambda: state(database, process) is None, "its end")


def test_who_reads_slowly_is_left_alone(database: str, holder: psycopg.Connection) -> None:
    """An operator who looks at a long answer page by page."""
    bind_log(database)
    process = holder.info.backend_pid
    hold(holder, 1)
    holder.pgconn.send_query(b"select repeat('x', 1000000) from generate_series(1, 100)")
    holder.pgconn.flush()
    wait_until_it_waits(database, process, "ClientWrite")
    stopped.end_stopped(database, [1])
    assert state(database, process) == ("active", "ClientWrite")


def test_a_table_that_is_locked_as_a_whole_does_not_stop_who_looks(
    database: str, holder: psycopg.Connection, lines: Lines
) -> None:
    record = filled(database, event()).append(event())
    with closing(taken(database)) as consumer:
        holder.execute("begin")
        holder.execute("lock table milepost.partitions in access exclusive mode")
        with pytest.raises(DatabaseUnavailable, match="lock timeout"):
            consumer.apply([record])
    assert lines.of("holder_ended") == []
