"""Rows of the view as a verification reads them: by server-side cursors, in binary, in the order that each check needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Generic, TypeVar

import msgspec

from milepost.consumer import queries
from milepost.consumer.audit.findings import Key
from milepost.consumer.database import Connection
from milepost.consumer.integrity import CheckpointFacts, HeadFacts
from milepost.consumer.integrity.facts import moment
from milepost.schemas import Envelope, Kind

AT_ONCE: Final = 2_000
"""Rows of one fetch. None of them holds a state."""
FEW_AT_ONCE: Final = 4
"""Rows of one fetch from the quarantine, where each may have 17 MiB."""

Row = tuple[Any, ...]


class StoredEvent(Envelope, frozen=True, gc=False, kw_only=True):
    """An event as history keeps it: without its state."""

    stored_size: int

    @property
    def size(self) -> int:
        """The bytes of the state, as the row says."""
        return self.stored_size


class Entry(msgspec.Struct, gc=False):
    """A row of history."""

    event: StoredEvent
    seq: int
    outcome: str
    log_time: int
    chain: bytes | None
    """None is no chain: somebody took it away."""
    topic: str
    partition: int
    offset: int
    recorded_at: int
    """When the consumer wrote it, by the server's clock, microseconds since 1970 UTC."""

    @property
    def key(self) -> Key:
        """What names the row."""
        return {"tenant_id": self.event.tenant_id, "session_id": self.event.session_id, "seq": str(self.seq)}


class LiveRow(msgspec.Struct, gc=False):
    """A row of checkpoints: its columns, and what its state really is."""

    facts: CheckpointFacts
    state_size: int
    state_sha256: bytes
    mac: bytes | None
    mac_key: bytes | None


class HeadRow(msgspec.Struct, gc=False):
    """A row of sessions."""

    facts: HeadFacts
    mac: bytes | None
    mac_key: bytes | None


def entry(row: Row) -> Entry:
    """A row of the statement `history`, or the last columns of `places_whole`."""
    event = StoredEvent(
        tenant_id=row[0],
        session_id=row[1],
        kind=_KINDS[row[3]],
        event_id=row[5],
        event_time=moment(row[6]),
        checkpoint_id=row[8],
        parent_id=row[9],
        run_id=row[10],
        step=row[11],
        next_node=row[12],
        reason=row[13],
        framework_version=row[14],
        schema_version=row[15],
        pinned=row[16],
        labels=row[17],
        stored_size=row[18],
        sha256=row[19],
        source=row[20],
        publisher_id=row[21],
        publisher_seq=row[22],
        traceparent=row[23],
        tracestate=row[24],
        extensions=row[25],
    )
    return Entry(event, row[2], row[4], moment(row[7]), row[26], row[27], row[28], row[29], moment(row[30]))


_KINDS: Final = {kind.value: kind for kind in Kind}
_Item = TypeVar("_Item")


class Stream(Generic[_Item]):
    """Items with a look at the next one."""

    def __init__(self, items: Iterator[_Item]) -> None:
        self._items = items
        self.next: _Item | None = next(items, None)

    def take(self) -> _Item:
        """The next one. There must be one."""
        if (item := self.next) is None:
            raise ValueError("expected another row, found none")
        self.next = next(self._items, None)
        return item


def read(
    connection: Connection,
    statement: str,
    parameters: Sequence[object] = (),
    at_once: int = AT_ONCE,
    tell: Callable[[int], None] | None = None,
) -> Iterator[Row]:
    """The rows of a statement of audit.sql, as they are asked for; `tell` is told how many more were fetched.

    A thread fetches the next ones meanwhile, so that the server works while we do.
    """
    with connection.cursor(f"milepost_audit_{statement}", binary=True) as cursor, ThreadPoolExecutor(1) as ahead:
        cursor.execute(queries.load("audit")[statement], parameters, binary=True)
        following = ahead.submit(cursor.fetchmany, at_once)
        while rows := following.result():
            following = ahead.submit(cursor.fetchmany, at_once)
            if tell is not None:
                tell(len(rows))
            yield from rows
