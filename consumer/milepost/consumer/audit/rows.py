"""Rows of the view as a verification reads them: by server-side cursors, in binary, in the order that each check needs."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from operator import itemgetter
from typing import Any, Final, Generic, TypeVar

import msgspec
from psycopg import ServerCursor
from psycopg.abc import Loader
from psycopg.types.numeric import Int8BinaryLoader
from psycopg.types.string import ByteaBinaryLoader

from milepost.consumer import queries
from milepost.consumer.audit.findings import Key
from milepost.consumer.database import Connection
from milepost.consumer.integrity import CheckpointFacts, HeadFacts
from milepost.consumer.integrity.facts import EPOCH
from milepost.schemas import Envelope, Kind

AT_ONCE: Final = 2_000
"""Rows of one fetch. None of them holds a state."""
FEW_AT_ONCE: Final = 4
"""Rows of one fetch from the quarantine, where each may have 17 MiB."""

Row = tuple[Any, ...]

_RAW: Final[Mapping[str, type[Loader]]] = {
    "timestamptz": Int8BinaryLoader,
    "uuid": ByteaBinaryLoader,
    "json": ByteaBinaryLoader,
}


class StoredEvent(Envelope, frozen=True, gc=False):
    """An event as history keeps it: without its state."""

    stored_size: int = 0

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


# by position, which mypy cannot count, since there is one for each row of history
_new_event: Final[Callable[..., StoredEvent]] = StoredEvent
_new_entry: Final[Callable[..., Entry]] = Entry
_KINDS: Final = {kind.value: kind for kind in Kind}

NARROW: Final = 8
PARTITION, OFFSET, LOG_TIME, OUTCOME, SIZE, PUBLISHER_ID, PUBLISHER_SEQ, SOURCE = range(NARROW)
"""The columns of the statement `places`, and the first ones of `history`."""
TENANT_ID, SESSION_ID, SEQ = range(NARROW, 11)
"""The next ones of `history`."""


def entry(row: Row) -> Entry:
    """A row of the statement `history`."""
    event = _new_event(
        _KINDS[row[11]],
        row[8],
        row[9],
        row[12],
        row[13] + EPOCH,
        row[7],
        *row[14:24],
        row[5],
        row[6],
        row[24],
        row[25],
        row[26],
        None,
        row[27],
        row[4],
    )
    return _new_entry(event, row[10], row[3], row[2] + EPOCH, row[28], row[29], row[0], row[1], row[30] + EPOCH)


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


class PlacedRows:
    """Rows in the order of the log, whose first columns are partition and offset: a look at the next one, and many at once."""

    def __init__(self, batches: Iterator[list[Row]]) -> None:
        self._batches = batches
        self._rows: list[Row] = []
        self._at = 0
        self.next: Row | None = None
        self._go(0)

    def take(self) -> Row:
        """The next one. There must be one."""
        if (row := self.next) is None:
            raise ValueError("expected another row, found none")
        self._go(self._at + 1)
        return row

    def take_below(self, place: tuple[int, int]) -> Iterator[list[Row]]:
        """All that stand before this place, as many at once as were fetched."""
        while (begin := self._at) < (end := bisect_left(self._rows, place, begin, key=_place)):
            rows = self._rows[begin:end]
            self._go(end)
            yield rows

    def _go(self, at: int) -> None:
        self._at = at
        while self._at >= len(self._rows):
            self._at = 0
            if (rows := next(self._batches, None)) is None:
                self._rows, self.next = [], None
                return
            self._rows = rows
        self.next = self._rows[self._at]


_place: Final = itemgetter(PARTITION, OFFSET)


def raw_cursor(connection: Connection, name: str) -> ServerCursor[Row]:
    """A cursor in the server, in binary: ids and JSON are bytes, times microseconds since 2000 UTC.

    So any hand-made value can be read, the infinite ones too, and reading a time takes as long as reading an integer.
    """
    cursor = connection.cursor(name, binary=True)
    for type_name, loader in _RAW.items():
        cursor.adapters.register_loader(type_name, loader)
    return cursor


def fetch(
    connection: Connection,
    statement: str,
    parameters: Sequence[object] = (),
    at_once: int = AT_ONCE,
    tell: Callable[[int], None] | None = None,
) -> Iterator[list[Row]]:
    """The rows of a statement of audit.sql, many at once; `tell` is told how many more were fetched.

    A thread fetches the next ones meanwhile, so that the server works while we do.
    """
    with raw_cursor(connection, f"milepost_audit_{statement}") as cursor, ThreadPoolExecutor(1) as ahead:
        cursor.execute(queries.load("audit")[statement], parameters, binary=True)
        following = ahead.submit(cursor.fetchmany, at_once)
        while rows := following.result():
            following = ahead.submit(cursor.fetchmany, at_once)
            if tell is not None:
                tell(len(rows))
            yield rows


def read(
    connection: Connection,
    statement: str,
    parameters: Sequence[object] = (),
    at_once: int = AT_ONCE,
    tell: Callable[[int], None] | None = None,
) -> Iterator[Row]:
    """The rows of a statement, as they are asked for: those of `fetch`, one by one."""
    return chain.from_iterable(fetch(connection, statement, parameters, at_once, tell))
