"""What the tests of the quarantine have in common."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from uuid import UUID

import msgspec
import psycopg

from milepost.consumer.records import LogRecord
from milepost.schemas import CheckpointCreated, InvalidRecord, Reason
from tests.fixtures.view import FakeLog

UNKNOWN = InvalidRecord(Reason.UNKNOWN_KIND, "a kind that an older version did not know")
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def created(number: int, session: str = "s", **fields: object) -> CheckpointCreated:
    """An event made at its number of seconds after noon."""
    known: dict[str, object] = {
        "tenant_id": "t",
        "session_id": session,
        "checkpoint_id": f"c{number:04}",
        "event_id": UUID(int=number + 1),
        "state": f'{{"number": {number}}}'.encode(),
        "created_at": NOON + timedelta(seconds=number),
    }
    return CheckpointCreated(**{**known, **fields})  # type: ignore[arg-type]


def unknown_to_an_older_version(record: LogRecord) -> LogRecord:
    """The record as a consumer reads it that does not know its kind yet."""
    return msgspec.structs.replace(record, event=None, fault=UNKNOWN)


def appended(log: FakeLog, numbers: Iterable[int], session: str = "s") -> list[LogRecord]:
    """Records of checkpoints of one session."""
    return [log.append(created(number, session)) for number in numbers]


def quarantined(database: str) -> list[tuple[int, int, str, str]]:
    """Partition, offset, reason and status of what stands in the quarantine."""
    with psycopg.connect(database) as connection:
        return connection.execute(
            'select partition, "offset", reason, status from milepost.quarantine order by partition, "offset"'
        ).fetchall()


def states(database: str, session: str = "s") -> list[bytes]:
    """The states of a session's live checkpoints, oldest first."""
    with psycopg.connect(database) as connection:
        rows = connection.execute(
            "select convert_to(state::text, 'UTF8') from milepost.checkpoints where session_id = %s order by seq",
            [session],
        )
        return [bytes(row[0]) for row in rows]
