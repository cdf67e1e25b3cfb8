"""Sessions that hold much, and what a statement's work is counted by."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from typing import LiteralString

import psycopg

from milepost.consumer.integrity import IntegrityKey, Keyring
from milepost.consumer.materializer import Materializer
from milepost.schemas import DEFAULT_TOPIC, CheckpointCreated
from tests.fixtures.view import PARTITIONS, TICK, FakeLog, bind_log

KEY = IntegrityKey(bytes(range(32)))


def checkpoint(number: int, session_id: str = "big", *, pinned: bool = False, size: int = 8) -> CheckpointCreated:
    """The number-th checkpoint of a session, with a state of so many bytes."""
    state = b'"%s"' % str(number).encode().ljust(size - 2, b".")
    return CheckpointCreated(
        tenant_id="acme", session_id=session_id, checkpoint_id=f"c{number}", state=state, pinned=pinned
    )


def set_policy(database: str, newest: int, max_bytes: int | None = None, max_age: int | None = None) -> None:
    """The one policy; `max_age` in the log's ticks."""
    age = timedelta(microseconds=max_age * TICK) if max_age is not None else None
    with psycopg.connect(database) as connection:
        connection.execute(
            "update milepost.retention_policies set newest = %s, max_bytes = %s, max_age = %s", [newest, max_bytes, age]
        )


def taken(database: str, *, signed: bool = False) -> Materializer:
    """A consumer that has all partitions."""
    materializer = Materializer(database, DEFAULT_TOPIC, Keyring([KEY]) if signed else None)
    materializer.take(range(PARTITIONS))
    return materializer


def filled(database: str, *events: CheckpointCreated, signed: bool = False) -> FakeLog:
    """A log of these events, in a view that keeps all of them. What was removed stays in the table, dead."""
    with psycopg.connect(database) as connection:
        connection.execute("alter table milepost.checkpoints set (autovacuum_enabled = off)")
    bind_log(database)
    set_policy(database, 10_000)
    log = FakeLog()
    with closing(taken(database, signed=signed)) as consumer:
        consumer.apply([log.append(event) for event in events])
    return log


def counted(database: str, consumer: Materializer, query: LiteralString) -> int:
    """What Postgres has counted of all that a consumer did so far."""
    consumer.connection().execute("select pg_stat_force_next_flush()")
    with psycopg.connect(database) as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return int(row[0])


class Counted:
    """A consumer whose work on the live checkpoints is counted."""

    def __init__(self, database: str) -> None:
        self._database = database
        self.consumer = taken(database)

    def restart(self) -> None:
        """Let another one take over, which remembers nothing."""
        self.walked()  # or what the first one did would be counted some time later
        self.close()
        self.consumer = taken(self._database)

    def walked(self) -> int:
        """How many entries of the indexes were walked over so far, those of dead rows too."""
        return counted(
            self._database,
            self.consumer,
            "select sum(idx_tup_read) from pg_stat_user_indexes "
            "where schemaname = 'milepost' and relname = 'checkpoints'",
        )

    def close(self) -> None:
        """Close the consumer's connection."""
        self.consumer.close()


def heads(database: str) -> list[tuple[object, ...]]:
    """Of each session: live checkpoints and bytes, and up to where retention removed.

    They fit the rows there are.
    """
    with psycopg.connect(database) as connection:
        found = connection.execute(
            "select s.session_id, s.live_checkpoints, s.live_bytes, s.pruned_seq, c.rows, c.bytes, c.low "
            "from milepost.sessions s cross join lateral ("
            "    select count(*) as rows, coalesce(sum(size), 0) as bytes, min(seq) filter (where not pinned) as low "
            "    from milepost.checkpoints where tenant_id = s.tenant_id and session_id = s.session_id"
            ") c order by s.tenant_id, s.session_id"
        ).fetchall()
    for _, live_checkpoints, live_bytes, pruned_seq, rows, size, low in found:
        assert (live_checkpoints, live_bytes) == (rows, size)
        assert low is None or low > pruned_seq
    return [row[:4] for row in found]
