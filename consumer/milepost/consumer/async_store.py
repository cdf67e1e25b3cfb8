"""The read side for asyncio: the same reads as store.py, with `await`."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import AsyncIterator, Iterable
from types import TracebackType
from typing import Any, Self, Unpack
from uuid import UUID

import psycopg
from psycopg_pool import AsyncConnectionPool

from milepost.consumer import reading
from milepost.consumer.async_connections import (
    AsyncBorrowed,
    AsyncConnections,
    AsyncOwnConnections,
    AsyncPoolConnections,
)
from milepost.consumer.database import translate
from milepost.consumer.explaining import ExplainedEntry, HistoryFilters, Pages
from milepost.consumer.integrity.history import HistoryProof
from milepost.consumer.integrity.keys import KeySource, keyring
from milepost.consumer.integrity.locating import SuspectError
from milepost.consumer.integrity.reads import KeyedReads, Reads
from milepost.consumer.lending import is_lost, is_unprepared
from milepost.consumer.log import LogIdentity
from milepost.consumer.logged import LoggedState, fetch
from milepost.consumer.reading import Answer, Read, Row
from milepost.consumer.views import Checkpoint, CheckpointInfo, HistoryEntry, SessionInfo
from milepost.consumer.waiting import Wait
from milepost.schemas import InvalidSetting, MilepostError, Position


class AsyncCheckpointStore:
    """Reads the view like `CheckpointStore`, for the tasks of one event loop.

    `database` is a conninfo, of which the store makes up to ten connections, the first one at the first read; or an open
    `psycopg_pool.AsyncConnectionPool`, which stays the caller's. `integrity_keys`, what is found,
    and what is raised, are as there.
    """

    _reads: Reads = reading

    def __init__(self, database: str | AsyncConnectionPool[Any], *, integrity_keys: Iterable[KeySource] = ()) -> None:
        if (keys := keyring(integrity_keys)) is not None:
            self._reads = KeyedReads(keys)
        self._connections = _connections(database)
        self._prepare = True
        self._is_closed = False

    async def get(self, tenant_id: str, session_id: str, checkpoint_id: str) -> Checkpoint | None:
        """A live checkpoint with its state, or None. Raises `CorruptState` when the state is not what was published."""
        return await self._run(self._reads.get(tenant_id, session_id, checkpoint_id))

    async def latest(self, tenant_id: str, session_id: str) -> Checkpoint | None:
        """The live checkpoint with the highest seq, or None. Raises `CorruptState` like `get`."""
        return await self._run(self._reads.latest(tenant_id, session_id))

    async def list(
        self,
        tenant_id: str,
        session_id: str,
        *,
        run_id: UUID | None = None,
        after_seq: int = 0,
        limit: int | None = None,
        newest_first: bool = False,
    ) -> builtins.list[CheckpointInfo]:
        """The live checkpoints of a session, oldest to newest, without their states.

        Those with a seq above `after_seq`, of one run or of all; at most `limit`, which is 1 or more, counted from the end
        that comes first.
        """
        return await self._run(self._reads.list_session(tenant_id, session_id, run_id, after_seq, limit, newest_first))

    async def list_by_run(
        self, tenant_id: str, run_id: UUID, *, limit: int | None = None
    ) -> builtins.list[CheckpointInfo]:
        """The live checkpoints of a run in all of the tenant's sessions, as the log took them in, without their states."""
        return await self._run(self._reads.list_by_run(tenant_id, run_id, limit))

    async def sessions(
        self, tenant_id: str, *, after: str | None = None, limit: int | None = 100
    ) -> builtins.list[SessionInfo]:
        """The tenant's sessions, deleted ones too, in byte order of their ids; for the next page, those `after` the last."""
        return await self._run(self._reads.sessions(tenant_id, after, limit))

    async def session(self, tenant_id: str, session_id: str) -> SessionInfo | None:
        """A session, deleted or not, or None."""
        return await self._run(self._reads.session(tenant_id, session_id))

    async def history(
        self, tenant_id: str, session_id: str, *, after_seq: int = 0, limit: int | None = None
    ) -> builtins.list[HistoryEntry]:
        """Every event of a session for ever, oldest to newest, with what became of it; those above `after_seq`."""
        return await self._run(reading.history(tenant_id, session_id, after_seq, limit))

    async def check_history(self, tenant_id: str, session_id: str) -> int:
        """How many events a session has had, 0 for one that never was; with integrity keys alone.

        All of its history is read, page by page, and proved by the chain of its head, which the head's MAC covers. Raises
        `Tampered` when anything in it was changed, removed or added, `InvalidSetting` for a store without keys.
        """
        if not isinstance(self._reads, KeyedReads):
            raise InvalidSetting("check_history: expected a store with integrity_keys, found none")
        proof = HistoryProof(await self._run(self._reads.head(tenant_id, session_id)))
        while (read := proof.next) is not None:
            await self._run(read)
        return proof.events

    async def iter_history(
        self,
        tenant_id: str,
        session_id: str,
        *,
        after_seq: int = 0,
        limit: int | None = None,
        **filters: Unpack[HistoryFilters],
    ) -> AsyncIterator[ExplainedEntry]:
        """The wanted events of a session, oldest to newest, each with what became of it and why; read page by page.

        However long the history is, a page of it is in memory. Pages are read one after the other: what the view takes in
        meanwhile shows in those that follow.
        """
        pages = Pages(tenant_id, session_id, after_seq, limit, filters)
        while (read := pages.next) is not None:
            page = await self._run(read)
            pages.took(page)
            for entry in page:
                yield entry

    async def state_from_log(
        self,
        tenant_id: str,
        session_id: str,
        checkpoint_id: str,
        *,
        kafka: str,
        seq: int | None = None,
        timeout: float = 30.0,
    ) -> LoggedState | None:
        """The state of any checkpoint that ever was, from the log at `kafka`; None when history knows no such checkpoint.

        Pruned and deleted ones, too: ask for what was deleted on purpose only where that is allowed. Where several events
        published the id, the latest that was applied counts, or the one of `seq`. `timeout` in seconds. Raises `WrongLog`
        when the log does not hold the record any more, `CorruptState` when it is not what history says, `KafkaUnavailable`.
        """
        entry = await self._run(reading.published(tenant_id, session_id, checkpoint_id, seq))
        return await self._logged(entry, kafka, timeout) if entry is not None else None

    async def wait_for(self, position: Position, timeout: float) -> None:
        """Return once the view has taken in the record at a position, whatever became of it; `timeout` in seconds.

        Raises `TimeoutError` saying how far the view is, `WrongLog` for a position of another log.
        """
        wait = Wait(position, timeout)
        while (pause := wait.pause(await self._run(wait.read))) is not None:
            await asyncio.sleep(pause)

    async def close(self) -> None:
        """Close the store's own connections; a pool stays open. Later reads raise `MilepostError`. Safe to repeat."""
        self._is_closed = True
        await self._connections.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _logged(self, entry: HistoryEntry, kafka: str, timeout: float) -> LoggedState:
        found = await self._run(reading.log_identity())
        log = LogIdentity(*found) if found is not None else None
        return await asyncio.to_thread(fetch, entry, log, kafka, timeout)

    async def _run(self, read: Read[Answer]) -> Answer:
        if self._is_closed:
            raise MilepostError("the store was closed; it reads no more")
        rows = await self._rows(read)
        try:
            return read.answer(rows)
        except SuspectError as suspect:
            try:
                evidence = await self._rows(suspect.evidence)
            except MilepostError:
                raise suspect.finding.error() from None
            raise suspect.named(evidence) from None

    async def _rows(self, read: Read[Answer]) -> builtins.list[Row]:
        may_repeat = True
        while True:
            borrowed = None
            try:
                async with self._connections.borrow() as borrowed:
                    return await borrowed.rows(read, prepare=self._prepare)
            except psycopg.Error as error:
                if borrowed is None or not may_repeat or not await self._mend(borrowed, error):
                    raise translate(error, self._connections.database) from error
            may_repeat = False

    async def _mend(self, borrowed: AsyncBorrowed, error: psycopg.Error) -> bool:
        """Whether the read may be tried again, now that what was in its way is gone."""
        if is_unprepared(error):
            self._prepare = False
            return True
        if is_lost(borrowed.connection, error):
            await self._connections.drop_idle()
            return True
        return False


def _connections(database: object) -> AsyncConnections:
    if isinstance(database, str):
        return AsyncOwnConnections(database)
    if isinstance(database, AsyncConnectionPool):
        return AsyncPoolConnections(database)
    raise InvalidSetting(f"database: expected a conninfo or an AsyncConnectionPool, found {type(database).__name__}")
