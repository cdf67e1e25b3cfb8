"""Connections for the reads of a store: its own ones, made from a conninfo, or those of the caller's pool.

Its own are made by the thread that needs one, so that the reason why there is none comes at once, and the first read after an
outage is answered. psycopg_pool's workers connect behind the scenes, with growing pauses, and the reason goes to a log.
"""

from __future__ import annotations

import queue
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import psycopg
from psycopg.rows import tuple_row
from psycopg_pool import ConnectionPool

from milepost.consumer.cursors import ReadCursor
from milepost.consumer.lending import (
    BUSY_SECONDS,
    MAX_CONNECTIONS,
    busy,
    is_large,
    is_reusable,
    own_conninfo,
    pool_conninfo,
)
from milepost.consumer.reading import STATEMENTS, Answer, Read, Row


class Borrowed:
    """A connection for the time of a read, and what is known of it."""

    def __init__(self, connection: psycopg.Connection[Any], is_restricted: bool | None = None) -> None:
        self.connection = connection
        self.is_restricted = is_restricted
        """Whether row-level security holds for its role; None until it is asked."""
        self._cursor = ReadCursor(connection, row_factory=tuple_row)

    def rows(self, read: Read[Answer], *, prepare: bool) -> list[Row]:
        """What the read finds. Where row-level security holds, the tenant is named first, in the same round trip."""
        prepare = prepare and read.may_prepare
        if "tenant_id" in read.parameters:
            if self.is_restricted is None:
                (found,) = self._cursor.execute(STATEMENTS["is_restricted"], binary=True).fetchall()
                self.is_restricted = bool(found[0])
            if self.is_restricted:
                return self._rows_of_tenant(read, prepare)
        rows = self._cursor.execute(read.statement, read.parameters, prepare=prepare, binary=True).fetchall()
        if is_large(rows):  # the cursor would keep it until the next read
            self._cursor = ReadCursor(self.connection, row_factory=tuple_row)
        return rows

    def _rows_of_tenant(self, read: Read[Answer], prepare: bool) -> list[Row]:
        cursor = ReadCursor(self.connection, row_factory=tuple_row)
        with self._one_transaction():
            self._cursor.execute(STATEMENTS["restrict"], read.parameters, prepare=prepare, binary=True)
            cursor.execute(read.statement, read.parameters, prepare=prepare, binary=True)
        return cursor.fetchall()

    def _one_transaction(self) -> AbstractContextManager[object]:
        # what a pipeline sends before it ends is one transaction of the server's, and one round trip
        return self.connection.pipeline() if psycopg.Pipeline.is_supported() else self.connection.transaction()


class Connections(Protocol):
    """Who lends connections. For several threads."""

    database: str
    """A conninfo, for messages that say where."""

    def borrow(self) -> AbstractContextManager[Borrowed]:
        """A connection for the time of a `with`. May block for as long as a connection takes; raises psycopg's errors."""

    def drop_idle(self) -> None:
        """Let go of connections that may have died with another one."""

    def close(self) -> None:
        """Close what is not the caller's."""


class OwnConnections:
    """Connections made when needed, the last used one first, at most `MAX_CONNECTIONS` of them."""

    def __init__(self, database: str) -> None:
        self.database = own_conninfo(database)
        self._idle: list[Borrowed] = []
        self._free: queue.SimpleQueue[None] = queue.SimpleQueue()  # a semaphore in C, at a tenth of the cost
        for _ in range(MAX_CONNECTIONS):
            self._free.put(None)
        self._is_closed = False

    @contextmanager
    def borrow(self) -> Iterator[Borrowed]:
        """A connection; the reason when there is none comes within the connect timeout."""
        try:
            self._free.get(timeout=BUSY_SECONDS)
        except queue.Empty:
            raise busy() from None
        try:
            try:
                borrowed = self._idle.pop()
            except IndexError:
                borrowed = Borrowed(psycopg.connect(self.database, autocommit=True))
            try:
                yield borrowed
            finally:
                if is_reusable(borrowed.connection) and not self._is_closed:
                    self._idle.append(borrowed)
                else:
                    borrowed.connection.close()
        finally:
            self._free.put(None)

    def drop_idle(self) -> None:
        """Close the connections that nobody uses now."""
        while self._idle:
            try:
                self._idle.pop().connection.close()
            except IndexError:  # another thread took it
                return

    def close(self) -> None:
        """Close all connections, those in use as soon as they are given back."""
        self._is_closed = True
        self.drop_idle()


class PoolConnections:
    """The connections of the caller's pool, used as they come."""

    def __init__(self, pool: ConnectionPool[Any]) -> None:
        self.database = pool_conninfo(pool)
        self._pool = pool
        self._restricted: WeakKeyDictionary[psycopg.Connection[Any], bool | None] = WeakKeyDictionary()

    @contextmanager
    def borrow(self) -> Iterator[Borrowed]:
        """A connection; the pool's own timeout holds."""
        with self._pool.connection() as connection:
            known = self._restricted.get(connection)
            borrowed = Borrowed(connection, known)
            yield borrowed
            if known is None:
                self._restricted[connection] = borrowed.is_restricted

    def drop_idle(self) -> None:
        """Have the pool look after its connections."""
        self._pool.check()

    def close(self) -> None:
        """Nothing: the pool is the caller's."""
