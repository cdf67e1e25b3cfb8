"""Whoever stops in the middle of a COPY (SIGSTOP, a paused container) keeps its partitions' rows, and Postgres sets it no limit.

It is not idle in its transaction, and while Postgres waits for a COPY's data no timeout of a statement is looked at. So who waits
for such a partition ends that session: the transaction is undone, as after a lost connection.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import closing
from time import sleep
from typing import Final

import msgspec
import psycopg

from milepost.consumer import queries
from milepost.consumer.database import Connection, connect
from milepost.schemas import MilepostError

logger = logging.getLogger(__name__)

STOPPED_SECONDS: Final = 10.0
"""For so long one statement has run that waits for its client. A batch's rows arrive within a second."""
_LOOK_SECONDS: Final = 1.0
"""For so long nothing more may have arrived: who is slow goes on."""


class _Holder(msgspec.Struct, frozen=True):
    """A session that waits for its client in the middle of a statement."""

    process: int
    statement_began: str
    partitions: list[int]
    seconds: float
    received: int
    """Bytes of its COPY."""

    @property
    def stands(self) -> tuple[int, str, int]:
        """What does not change while it gets nothing."""
        return self.process, self.statement_began, self.received


def end_stopped(database: str, partitions: Iterable[int]) -> None:
    """End the sessions that hold one of these partitions and have stopped sending. Raises nothing, and never waits long."""
    wanted = list(partitions)
    try:
        # by the login's own privileges, which may see and end its other sessions
        with closing(connect(database, application="milepost-consumer")) as connection:
            # whatever they wait for, we must not: the rows' table may be locked as a whole
            connection.execute("set lock_timeout = '1s'; set statement_timeout = '5s'")
            before = {holder.stands for holder in _holders(connection, wanted)}
            if not before:
                return
            sleep(_LOOK_SECONDS)
            for holder in _holders(connection, wanted):
                if holder.stands in before:
                    _end(connection, holder)
    except (psycopg.Error, MilepostError) as error:
        logger.info("who holds the partitions could not be found: %s", error)


def _holders(connection: Connection, partitions: list[int]) -> list[_Holder]:
    rows = connection.execute(queries.load("materialize")["stopped_holders"], [partitions, STOPPED_SECONDS])
    return [_Holder(*row) for row in rows]


def _end(connection: Connection, holder: _Holder) -> None:
    numbers = ", ".join(map(str, holder.partitions))
    try:
        connection.execute("select pg_terminate_backend(%s)", [holder.process])
    except psycopg.errors.InsufficientPrivilege as error:
        logger.warning(
            "Postgres' process %d holds partitions %s, its client sends nothing more, and it may not be ended: %s",
            *(holder.process, numbers, error),
            extra={"event": "holder_not_ended"},
        )
        return
    logger.warning(
        "Postgres' process %d held partitions %s, and its client sent nothing more in a statement of %.0f s: ended it",
        *(holder.process, numbers, holder.seconds),
        extra={"event": "holder_ended"},
    )
