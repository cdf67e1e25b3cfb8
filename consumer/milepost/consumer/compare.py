"""Are two views equal? Row by row in the order of the keys, in constant memory, on bytes.

The digest of a view goes over the same rows in the same order, so that two sites can compare by exchanging 32 bytes. It hangs on
the contents alone: not on the order in which rows were written, nor on batches, processes or the server's version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from typing import Final, TypeVar

import msgspec
from psycopg import sql
from psycopg.abc import Buffer
from psycopg.adapt import Loader

from milepost.consumer import queries
from milepost.consumer.database import Connection, connect, scalar, translated
from milepost.consumer.migrate import require_current

TABLES: Final = ("partitions", "sessions", "checkpoints", "history", "publishers", "quarantine")
_POSITION: Final = frozenset({"topic", "partition", "offset"})
"""Columns that say where a record stands."""
_AT_ONCE: Final = 2_000

Progress = Callable[[int], None]
"""Told how many more rows were compared."""


class Difference(msgspec.Struct, frozen=True):
    """One row, or one column of it, that the two views do not agree on."""

    table: str
    key: dict[str, str | None]
    column: str | None
    """None when only one of the two has the row."""
    left: str | None
    right: str | None

    def __str__(self) -> str:
        where = " ".join(f"{name}={value}" for name, value in self.key.items())
        if self.column is None:
            return f"{self.table} {where}: {self.left or 'absent'} on the left, {self.right or 'absent'} on the right"
        return f"{self.table} {where}: {self.column} is {self.left} on the left, {self.right} on the right"


class Comparison(msgspec.Struct):
    """What a comparison found."""

    rows: dict[str, int]
    """How many rows of each table were compared, those of one side included."""
    differences: list[Difference]
    """The first ones, in the order of the tables and their keys."""

    @property
    def equal(self) -> bool:
        """Whether the views are equal."""
        return not self.differences


@contextmanager
def snapshot(database: str, exported: str | None = None) -> Iterator[Connection]:
    """A connection that sees the view as it is now, however long the reading takes; or as the one that `exported` sees it."""
    with closing(connect(database, application="milepost-compare")) as connection, translated(database):
        require_current(connection)
        with connection.transaction():
            connection.execute("set transaction isolation level repeatable read, read only")
            if exported is not None:
                connection.execute(sql.SQL("set transaction snapshot {}").format(exported))
            connection.execute("set local client_encoding = 'UTF8'")
            # it may wait for the log, or for others that see the same, longer than a server lets its clients be idle
            connection.execute("set local idle_in_transaction_session_timeout = 0")
            # the snapshot is taken by the first statement that reads
            connection.execute("select from milepost.view")
            yield connection


def expected_rows(connection: Connection) -> int:
    """About how many rows a comparison will read, by the planner's statistics."""
    return int(str(scalar(connection, queries.load("compare")["rows_expected"])))


def compare(
    left: Connection,
    right: Connection,
    *,
    most: int = 10,
    positions: bool = True,
    progress: Progress | None = None,
) -> Comparison:
    """Compare two views, each in a snapshot; stops after `most` differences.

    Without `positions`, where records stand is no difference: for views of a log and of its copy in another topic.
    """
    found = Comparison({}, [])
    for table in TABLES:
        found.rows[table] = 0
        for differences in _counted(_pairs(table, left, right, positions), progress):
            found.rows[table] += 1
            found.differences += differences
            if len(found.differences) >= most:
                return found
    return found


def digest(connection: Connection, *, positions: bool = True, progress: Progress | None = None) -> bytes:
    """The SHA-256 of a view's contents, with or without where its records stand."""
    whole = sha256()
    for table in TABLES:
        whole.update(f"{table}\n".encode())
        for row in _counted(_rows(connection, table, positions), progress):
            for value in row.values:
                # the length first, so that no two rows read the same
                whole.update(b"-;" if value is None else b"%d;%b" % (len(value), value))
    return whole.digest()


class _Row(msgspec.Struct, gc=False):
    """A row of one side."""

    columns: list[str]
    """Those of the key end in a bar."""
    order: tuple[bytes | int, ...]
    values: tuple[bytes | None, ...]

    @property
    def key(self) -> dict[str, str | None]:
        """What names the row."""
        pairs = zip(self.columns, self.values, strict=True)
        return {name[:-1]: _text(value) for name, value in pairs if name.endswith("|")}


def _pairs(table: str, left: Connection, right: Connection, positions: bool) -> Iterator[list[Difference]]:
    """Walk through both sides at once, smaller key first; what each step differs in, which is nothing for most."""
    ours, theirs = _rows(left, table, positions), _rows(right, table, positions)
    mine, other = next(ours, None), next(theirs, None)
    while mine is not None or other is not None:
        if other is None or (mine is not None and mine.order < other.order):
            yield [Difference(table, mine.key, None, "present", None)] if mine is not None else []
            mine = next(ours, None)
        elif mine is None or other.order < mine.order:
            yield [Difference(table, other.key, None, None, "present")]
            other = next(theirs, None)
        else:
            yield _unequal(table, mine, other) if mine.values != other.values else []
            mine, other = next(ours, None), next(theirs, None)


def _unequal(table: str, mine: _Row, other: _Row) -> list[Difference]:
    columns = zip(mine.columns, mine.values, other.values, strict=True)
    return [
        Difference(table, mine.key, name, _text(left), _text(right)) for name, left, right in columns if left != right
    ]


def _rows(connection: Connection, table: str, positions: bool) -> Iterator[_Row]:
    """A table's rows in the order of its key, by a server-side cursor; each value the bytes of its text."""
    statements = queries.load("compare")
    with connection.cursor(f"milepost_{table}") as cursor:
        cursor.itersize = _AT_ONCE
        cursor.adapters.register_loader("text", _BytesLoader)
        cursor.execute(statements[table] if positions else statements.get(f"{table}_anywhere", statements[table]))
        names = [column.name for column in cursor.description or ()]
        kept = [number for number, name in enumerate(names) if positions or name not in _POSITION]
        columns = [names[number] for number in kept]
        keys = [number for number, name in enumerate(columns) if name.endswith("|")]
        for row in cursor:
            values = row if positions else tuple(row[number] for number in kept)
            yield _Row(columns, tuple(_ordered(columns[number], values[number]) for number in keys), values)


class _BytesLoader(Loader):
    """A text as its bytes in the connection's encoding."""

    def load(self, data: Buffer) -> bytes:
        """As they came."""
        return bytes(data)


def _ordered(column: str, value: bytes) -> bytes | int:
    """A key as the server orders it: numbers by their value, texts by their bytes."""
    return int(value) if column in ("partition|", "seq|", "offset|", "log_time|") else value


_Item = TypeVar("_Item")


def _counted(items: Iterator[_Item], progress: Progress | None) -> Iterator[_Item]:
    number = 0
    for item in items:
        yield item
        number += 1
        if progress is not None and number == _AT_ONCE:
            progress(number)
            number = 0
    if progress is not None and number:
        progress(number)


def _text(value: bytes | None) -> str | None:
    return value.decode() if value is not None else None
