"""A view with an integrity key, and edits made to its tables behind the product's back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import LiteralString
from uuid import UUID

import psycopg

from milepost.consumer.integrity import IntegrityKey, Keyring
from milepost.consumer.materializer import Materializer
from milepost.consumer.records import LogRecord
from milepost.schemas import DEFAULT_TOPIC, CheckpointCreated, Event, SessionDeleted
from tests.fixtures.view import PARTITIONS, bind_log

KEY = IntegrityKey(bytes(range(32)))
OTHER_KEY = IntegrityKey(bytes(range(1, 33)))
START = datetime(2026, 11, 30, 12, tzinfo=UTC)
RUN = UUID(int=7)


def checkpoint(
    number: int, session_id: str = "trip", *, pinned: bool = False, tenant_id: str = "acme"
) -> CheckpointCreated:
    """The number-th checkpoint of a session; all states have one size."""
    return CheckpointCreated(
        tenant_id=tenant_id,
        session_id=session_id,
        checkpoint_id=f"c{number}",
        state=b'{"step":%d}' % number,
        parent_id=f"c{number - 1}" if number > 1 else None,
        run_id=RUN,
        step=number,
        next_node="plan",
        framework_version="1.2",
        schema_version=3,
        pinned=pinned,
        labels={"workflow": "travel", "kind": "step"},
        created_at=START + timedelta(seconds=number),
        event_id=UUID(int=number + sum(session_id.encode()) * 1_000),
    )


def deletion(number: int, session_id: str) -> SessionDeleted:
    """A deletion made after the number-th checkpoint."""
    at = START + timedelta(seconds=number)
    return SessionDeleted(
        tenant_id="acme",
        session_id=session_id,
        deleted_at=at,
        event_id=UUID(int=number + 500 + sum(session_id.encode()) * 1_000),
    )


def happened() -> list[Event]:
    """Eight checkpoints of `trip`, the second pinned; `other` beside it; `gone`, deleted and begun anew; `empty`, deleted."""
    events: list[Event] = [checkpoint(1, "gone")]
    events += [checkpoint(number, pinned=number == 2) for number in range(1, 9)]
    events += [checkpoint(number, "other") for number in range(1, 9)]
    events += [deletion(1, "gone"), checkpoint(3, "gone")]
    return [*events, checkpoint(1, "empty"), deletion(1, "empty")]


class SignedView:
    """A view in a database, taken by one materializer with these keys."""

    def __init__(self, database: str, keys: Sequence[IntegrityKey] = (KEY,)) -> None:
        bind_log(database)
        self._materializer = Materializer(database, DEFAULT_TOPIC, Keyring(keys) if keys else None)
        self._materializer.take(range(PARTITIONS))

    def apply(self, records: Iterable[LogRecord]) -> None:
        """Apply records in one batch, then measure all sessions if the policies have changed."""
        self._materializer.apply(list(records))
        while self._materializer.is_sweeping:
            self._materializer.sweep()

    def close(self) -> None:
        """Close the materializer's connection."""
        self._materializer.close()


def execute(database: str, *statements: LiteralString) -> None:
    """Run statements as the superuser, one by one."""
    with psycopg.connect(database, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def set_newest(database: str, newest: int) -> None:
    """Keep so many of each session."""
    with psycopg.connect(database) as connection:
        connection.execute("update milepost.retention_policies set newest = %s", [newest])
