"""A batch's lookups cost the same however long the sessions are, however often an id came, and whatever the planner knows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Literal
from uuid import UUID, uuid4

import psycopg
import pytest

from milepost.consumer.materializer import Materializer
from milepost.schemas import CheckpointCreated
from tests.fixtures.view import FakeLog, bind_log
from tests.scale.ground import counted, set_policy, taken

Statistics = Literal["none", "of short sessions"]
Make = Callable[[int], CheckpointCreated]
BATCH = 100
BATCHES = 12


def event(session_id: str = "hot", checkpoint_id: str | None = None, event_id: UUID | None = None) -> CheckpointCreated:
    """An event with random ids, which say nothing of their order: each has to be looked up."""
    return CheckpointCreated(
        tenant_id="acme",
        session_id=session_id,
        checkpoint_id=checkpoint_id or uuid4().hex,
        event_id=event_id or uuid4(),
        state=b"{}",
    )


ONE = event()
MAKES: dict[str, Make] = {
    "new ids": lambda _: event(),
    "one event again and again": lambda _: ONE,
    "one event id": lambda _: event(event_id=ONE.event_id),
    "one event id in many sessions": lambda number: event(f"s{number % 50}", event_id=ONE.event_id),
    "one checkpoint id": lambda _: event(checkpoint_id="latest"),
    "one checkpoint id in many sessions": lambda number: event(f"s{number % 50}", "latest"),
}


def rows_read(database: str, consumer: Materializer) -> int:
    """Rows of tables and entries of indexes that were read so far."""
    return counted(
        database,
        consumer,
        "select (select sum(idx_tup_read) from pg_stat_user_indexes where schemaname = 'milepost')"
        "    + (select sum(seq_tup_read) from pg_stat_user_tables"
        "       where schemaname = 'milepost' and relname in ('checkpoints', 'history', 'sessions'))",
    )


def costs(database: str, make: Make, statistics: Statistics) -> Sequence[int]:
    """Rows that each batch of one kind reads, in a view that keeps ten checkpoints."""
    bind_log(database)
    set_policy(database, 10)
    log = FakeLog()
    found = []
    with closing(taken(database)) as consumer:
        if statistics == "of short sessions":
            consumer.apply([log.append(event(f"short-{number}")) for number in range(1_000)])
            with psycopg.connect(database, autocommit=True) as connection:
                connection.execute("analyze")
        for first in range(0, BATCH * BATCHES, BATCH):
            records = [log.append(make(number)) for number in range(first, first + BATCH)]
            before = rows_read(database, consumer)
            consumer.apply(records)
            found.append(rows_read(database, consumer) - before)
    return found


@pytest.mark.parametrize("statistics", ["none", "of short sessions"])
@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
def test_the_last_batch_reads_no_more_than_the_third(database: str, make: Make, statistics: Statistics) -> None:
    with psycopg.connect(database) as connection:
        for table in ("checkpoints", "history", "sessions", "partitions"):
            connection.execute(f"alter table milepost.{table} set (autovacuum_enabled = off)")
    found = costs(database, make, statistics)
    assert found[-1] <= found[2] + 2 * BATCH, found
    assert max(found) <= 6 * BATCH, found
