"""The quarantine: records that could not be applied, each whole and with the reason; listed, shown, dismissed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from milepost.consumer import queries
from milepost.consumer.database import Connection
from milepost.consumer.headers import headers_document, headers_of, is_readable
from milepost.consumer.operators import introduce, system_user
from milepost.consumer.records import LogRecord, from_parts, unreadable
from milepost.schemas import Position, Reason
from milepost.schemas.codec.attributes import to_datetime
from milepost.schemas.wire import Headers

Status = Literal["open", "retried", "dismissed"]
_PAGE: Final = 500


class QuarantineEntry(msgspec.Struct, frozen=True):
    """A record in the quarantine, without its headers and its value."""

    position: Position
    log_time: datetime
    """When the log took the record, by the broker's clock; UTC."""
    key: bytes | None
    size: int | None
    """The bytes of the value; None for a null value."""
    reason: str
    """A documented code: `milepost.schemas.Reason`."""
    detail: str
    """What was expected and what was found."""
    status: Status
    note: str | None
    """Why it was dismissed, or what became of it when it was retried."""
    changed_by: str | None
    """Who dismissed or retried it last: the user of the system and of the database."""
    changed_at: datetime | None
    recorded_at: datetime
    """When the consumer put it here; UTC."""


class QuarantinedRecord(msgspec.Struct, frozen=True):
    """A record in the quarantine, whole."""

    entry: QuarantineEntry
    headers: Headers
    value: bytes | None

    def decoded(self, partitions: int) -> LogRecord:
        """The record as this version reads it, of a log with so many partitions: with its event, or with the fault it has now."""
        entry = self.entry
        log_time = (entry.log_time - to_datetime(0)) // _MICROSECOND
        record = (entry.position.partition, entry.position.offset, log_time, entry.key, self.value, self.headers)
        return from_parts(*record, partitions) if is_readable(self.headers) else unreadable(*record)


_MICROSECOND: Final = to_datetime(1) - to_datetime(0)


def entries(
    connection: Connection, *, reason: Reason | None = None, status: Status | None = None
) -> Iterator[QuarantineEntry]:
    """What stands in the quarantine, by partition and offset, read a page at a time."""
    with connection.transaction(), connection.cursor("quarantine", binary=True) as cursor:
        cursor.itersize = _PAGE
        code = reason.value if reason is not None else None
        cursor.execute(queries.load("quarantine")["list"], [code, code, status, status])
        for row in cursor:
            yield _entry(*row)


def find(connection: Connection, topic: str | None, partition: int, offset: int) -> QuarantinedRecord | None:
    """The record that stood there in the log, of whatever topic when None is given; None when it is not in the quarantine."""
    statement = queries.load("quarantine")["find"]
    row = connection.execute(statement, [partition, offset, topic, topic], binary=True).fetchone()
    if row is None:
        return None
    *entry, headers, value = row
    return QuarantinedRecord(_entry(*entry), headers_of(headers), value)


def dismiss(connection: Connection, position: Position, why: str) -> bool:
    """Note that a record needs nothing more. False when it is not open. It stays, with who did it and why."""
    with connection.transaction():
        introduce(connection)
        done = connection.execute(
            queries.load("quarantine")["dismiss"], [why, operator(connection), position.partition, position.offset]
        )
    return done.rowcount == 1


def operator(connection: Connection) -> str:
    """Who is at work: the user of the system, and the one of the database."""
    return f"{system_user()} as {connection.info.user}"


def quarantine_values(record: LogRecord, topic: str) -> tuple[object, ...]:
    """The parameters of the statement `quarantine`."""
    if record.fault is None:
        raise ValueError("a record without a fault does not go to the quarantine")
    return (
        topic,
        record.partition,
        record.offset,
        record.log_time,
        record.key,
        headers_document(record.headers).decode(),
        record.value,
        record.fault.reason.value,
        storable(record.fault.detail),
    )


def storable(detail: str) -> str:
    """A sentence that a text column takes: without NUL and without lone surrogates."""
    return detail.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()


def _entry(topic: str, partition: int, offset: int, log_time: int, *rest: Any) -> QuarantineEntry:
    key, size, reason, detail, status, note, changed_by, changed_at, recorded_at = rest
    return QuarantineEntry(
        Position(topic, partition, offset),
        to_datetime(log_time),
        key,
        size,
        reason,
        detail,
        status,
        note,
        changed_by,
        to_datetime(changed_at) if changed_at is not None else None,
        to_datetime(recorded_at),
    )
