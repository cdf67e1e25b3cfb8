"""The read side: checkpoints, sessions and history of a tenant, from the view."""

from __future__ import annotations

import builtins
import time
from types import TracebackType
from typing import Any, Self
from uuid import UUID

import psycopg
from psycopg_pool import ConnectionPool

from milepost.consumer import reading
from milepost.consumer.connections import Borrowed, Connections, OwnConnections, PoolConnections
from milepost.consumer.database import translate
from milepost.consumer.lending import is_lost, is_unprepared
from milepost.consumer.reading import Answer, Read, Row
from milepost.consumer.views import Checkpoint, CheckpointInfo, HistoryEntry, SessionInfo
from milepost.consumer.waiting import Wait
from milepost.schemas import InvalidSetting, MilepostError, Position


class CheckpointStore:
    """Reads the view. For several threads at once, and for as long as the process lives.

    `database` is a conninfo, of which the store makes up to ten connections, the first one at the first read; or an open
    `psycopg_pool.ConnectionPool`, which stays the caller's. Behind a pooler that shares connections between transactions,
    give it a pool with `kwargs={"prepare_threshold": None}`.

    Every read names its tenant: what is another's is not found, as is what was pruned or deleted or never was. A name that
    breaks the rules of ids is not found either; one that is no text raises `TypeError`.

    All reads raise `DatabaseUnavailable` when Postgres does not answer now, and `WrongView` when there is no view in the
    database. A connection that the server has ended is replaced, and the read is tried once more.
    """

    def __init__(self, database: str | ConnectionPool[Any]) -> None:
        self._connections = _connections(database)
        self._prepare = True
        self._is_closed = False

    def get(self, tenant_id: str, session_id: str, checkpoint_id: str) -> Checkpoint | None:
        """A live checkpoint with its state, or None. Raises `CorruptState` when the state is not what was published."""
        return self._run(reading.get(tenant_id, session_id, checkpoint_id))

    def latest(self, tenant_id: str, session_id: str) -> Checkpoint | None:
        """The live checkpoint with the highest seq, or None. Raises `CorruptState` like `get`."""
        return self._run(reading.latest(tenant_id, session_id))

    def list(
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
        return self._run(reading.list_session(tenant_id, session_id, run_id, after_seq, limit, newest_first))

    def list_by_run(self, tenant_id: str, run_id: UUID, *, limit: int | None = None) -> builtins.list[CheckpointInfo]:
        """The live checkpoints of a run in all of the tenant's sessions, as the log took them in, without their states."""
        return self._run(reading.list_by_run(tenant_id, run_id, limit))

    def sessions(
        self, tenant_id: str, *, after: str | None = None, limit: int | None = 100
    ) -> builtins.list[SessionInfo]:
        """The tenant's sessions, deleted ones too, in byte order of their ids; for the next page, those `after` the last."""
        return self._run(reading.sessions(tenant_id, after, limit))

    def session(self, tenant_id: str, session_id: str) -> SessionInfo | None:
        """A session, deleted or not, or None."""
        return self._run(reading.session(tenant_id, session_id))

    def history(
        self, tenant_id: str, session_id: str, *, after_seq: int = 0, limit: int | None = None
    ) -> builtins.list[HistoryEntry]:
        """Every event of a session for ever, oldest to newest, with what became of it; those above `after_seq`."""
        return self._run(reading.history(tenant_id, session_id, after_seq, limit))

    def wait_for(self, position: Position, timeout: float) -> None:
        """Return once the view has taken in the record at a position, whatever became of it; `timeout` in seconds.

        Raises `TimeoutError` saying how far the view is, `WrongLog` for a position of another log.
        """
        wait = Wait(position, timeout)
        while (pause := wait.pause(self._run(wait.read))) is not None:
            time.sleep(pause)

    def close(self) -> None:
        """Close the store's own connections; a pool stays open. Later reads raise `MilepostError`. Safe to repeat."""
        self._is_closed = True
        self._connections.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, read: Read[Answer]) -> Answer:
        if self._is_closed:
            raise MilepostError("the store was closed; it reads no more")
        return read.answer(self._rows(read))

    def _rows(self, read: Read[Answer]) -> builtins.list[Row]:
        may_repeat = True
        while True:
            borrowed = None
            try:
                with self._connections.borrow() as borrowed:
                    return borrowed.rows(read, prepare=self._prepare)
            except psycopg.Error as error:
                if borrowed is None or not may_repeat or not self._mend(borrowed, error):
                    raise translate(error, self._connections.database) from error
            may_repeat = False

    def _mend(self, borrowed: Borrowed, error: psycopg.Error) -> bool:
        """Whether the read may be tried again, now that what was in its way is gone."""
        if is_unprepared(error):
            self._prepare = False
            return True
        if is_lost(borrowed.connection, error):
            self._connections.drop_idle()
            return True
        return False


def _connections(database: object) -> Connections:
    if isinstance(database, str):
        return OwnConnections(database)
    if isinstance(database, ConnectionPool):
        return PoolConnections(database)
    raise InvalidSetting(f"database: expected a conninfo or a ConnectionPool, found {type(database).__name__}")
