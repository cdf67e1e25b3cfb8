"""The same as connections.py for asyncio: its own connections, or those of the caller's pool."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import psycopg
from psycopg.rows import tuple_row
from psycopg_pool import AsyncConnectionPool

from milepost.consumer.cursors import AsyncReadCursor
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


class AsyncBorrowed:
    """A connection for the time of a read, and what is known of it."""

    def __init__(self, connection: psycopg.AsyncConnection[Any], is_restricted: bool | None = None) -> None:
        self.connection = connection
        self.is_restricted = is_restricted
        """Whether row-level security holds for its role; None until it is asked."""
        self._cursor = AsyncReadCursor(connection, row_factory=tuple_row)

    async def rows(self, read: Read[Answer], *, prepare: bool) -> list[Row]:
        """What the read finds. Where row-level security holds, the tenant is named first, in the same round trip."""
        prepare = prepare and read.may_prepare
        if "tenant_id" in read.parameters:
            if self.is_restricted is None:
                await self._cursor.execute(STATEMENTS["is_restricted"], binary=True)
                (found,) = await self._cursor.fetchall()
                self.is_restricted = bool(found[0])
            if self.is_restricted:
                return await self._rows_of_tenant(read, prepare)
        await self._cursor.execute(read.statement, read.parameters, prepare=prepare, binary=True)
        rows = await self._cursor.fetchall()
        if is_large(rows):  # the cursor would keep it until the next read
            self._cursor = AsyncReadCursor(self.connection, row_factory=tuple_row)
        return rows

    async def _rows_of_tenant(self, read: Read[Answer], prepare: bool) -> list[Row]:
        cursor = AsyncReadCursor(self.connection, row_factory=tuple_row)
        async with self._one_transaction():
            await self._cursor.execute(STATEMENTS["restrict"], read.parameters, prepare=prepare, binary=True)
            await cursor.execute(read.statement, read.parameters, prepare=prepare, binary=True)
        return await cursor.fetchall()

    def _one_transaction(self) -> AbstractAsyncContextManager[object]:
        # what a pipeline sends before it ends is one transaction of the server's, and one round trip
        return self.connection.pipeline() if psycopg.AsyncPipeline.is_supported() else self.connection.transaction()


class AsyncConnections(Protocol):
    """Who lends connections. For the tasks of one event loop."""

    database: str
    """A conninfo, for messages that say where."""

    def borrow(self) -> AbstractAsyncContextManager[AsyncBorrowed]:
        """A connection for the time of a `with`. May wait for as long as a connection takes; raises psycopg's errors."""

    async def drop_idle(self) -> None:
        """Let go of connections that may have died with another one."""

    async def close(self) -> None:
        """Close what is not the caller's."""


class AsyncOwnConnections:
    """Connections made when needed, the last used one first, at most `MAX_CONNECTIONS` of them."""

    def __init__(self, database: str) -> None:
        self.database = own_conninfo(database)
        self._idle: list[AsyncBorrowed] = []
        self._free = asyncio.BoundedSemaphore(MAX_CONNECTIONS)
        self._is_closed = False

    @asynccontextmanager
    async def borrow(self) -> AsyncIterator[AsyncBorrowed]:
        """A connection; the reason when there is none comes within the connect timeout."""
        await self._acquire()
        try:
            if self._idle:
                borrowed = self._idle.pop()
            else:
                borrowed = AsyncBorrowed(await psycopg.AsyncConnection.connect(self.database, autocommit=True))
            try:
                yield borrowed
            finally:
                if is_reusable(borrowed.connection) and not self._is_closed:
                    self._idle.append(borrowed)
                else:
                    await borrowed.connection.close()
        finally:
            self._free.release()

    async def _acquire(self) -> None:
        if not self._free.locked():
            await self._free.acquire()  # does not wait
            return
        try:
            async with asyncio.timeout(BUSY_SECONDS):
                await self._free.acquire()
        except TimeoutError:
            raise busy() from None

    async def drop_idle(self) -> None:
        """Close the connections that nobody uses now."""
        while self._idle:
            await self._idle.pop().connection.close()

    async def close(self) -> None:
        """Close all connections, those in use as soon as they are given back."""
        self._is_closed = True
        await self.drop_idle()


class AsyncPoolConnections:
    """The connections of the caller's pool, used as they come."""

    def __init__(self, pool: AsyncConnectionPool[Any]) -> None:
        self.database = pool_conninfo(pool)
        self._pool = pool
        self._restricted: WeakKeyDictionary[psycopg.AsyncConnection[Any], bool | None] = WeakKeyDictionary()

    @asynccontextmanager
    async def borrow(self) -> AsyncIterator[AsyncBorrowed]:
        """A connection; the pool's own timeout holds."""
        async with self._pool.connection() as connection:
            known = self._restricted.get(connection)
            borrowed = AsyncBorrowed(connection, known)
            yield borrowed
            if known is None:
                self._restricted[connection] = borrowed.is_restricted

    async def drop_idle(self) -> None:
        """Have the pool look after its connections."""
        await self._pool.check()

    async def close(self) -> None:
        """Nothing: the pool is the caller's."""
