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
from tests.fixtures.stopping import hold, stop_in_copy
from tests.scale.ground import filled, heads, taken


def event() -> CheckpointCreated:
    return CheckpointCreated(tenant_id="acme", session_id="s", state=b"{}")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopped, "STOPPED_SECONDS", 0.3)
    monkeypatch.setitem(materializer._WRITER_SETTINGS, "lock_timeout", "500ms")


@pytest.fixture
def holder(database: str) -> Iterator[psycopg.Connection]:
    """Another consumer's session."""
    with closing(connect(database)) as connection:
        yield connection


def state(database: str, process: int) -> tuple[str, str | None] | None:
    """What a session of Postgres is doing, None when it has ended."""
    with psycopg.connect(database) as connection:
        query = "select state, wait_event_type from pg_stat_activity where pid = %s"
        return connection.execute(query, [process]).fetchone()


def test_it_is_ended_by_who_waits_for_its_partition(database: str, holder: psycopg.Connection, lines: Lines) -> None:
    log = filled(database, event())
    record = log.append(event())
    hold(holder, record.partition)
    process = holder.info.backend_pid
    with ExitStack() as undoing, closing(taken(database)) as consumer:
        stop_in_copy(holder, undoing)
        wait_until(lambda: state(database, process) == ("active", "Client"), "the COPY to wait for its client")
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
        assert state(database, holder.info.backend_pid) == ("idle in transaction", "Client")
        assert state(database, elsewhere.info.backend_pid) == ("active", "Client")
        holder.execute("rollback")
        consumer.take(consumer.positions)
        consumer.apply([record])
    assert [row[:2] for row in heads(database)] == [("s", 2)]
