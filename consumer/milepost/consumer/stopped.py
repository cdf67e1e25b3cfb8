"""Whoever stops in the middle of a COPY (SIGSTOP, a paused container) keeps its partitions' rows, and Postgres sets it no limit.

It is not idle in its transaction, and while Postgres waits for a COPY's data no timeout of a statement is looked at. So who waits
for such a partition ends that session: the transaction is undone, as after a lost connection.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import closing
from typing import Final

import psycopg

from milepost.consumer import queries
from milepost.consumer.database import connect
from milepost.schemas import MilepostError

logger = logging.getLogger(__name__)

STOPPED_SECONDS: Final = 10.0
"""For so long Postgres has waited for the rest of one statement. A batch's rows arrive within a second."""


def end_stopped(database: str, partitions: Iterable[int]) -> None:
    """End the sessions that hold one of these partitions and have stopped sending. Raises nothing."""
    try:
        # by the login's own privileges, which may see and end its other sessions
        with closing(connect(database, application="milepost-consumer")) as connection:
            rows = connection.execute(queries.load("materialize")["end_stopped"], [list(partitions), STOPPED_SECONDS])
            for process, held, seconds, _ in rows:
                logger.warning(
                    "Postgres' process %d held partitions %s, and its client sent nothing more for %.0f s: ended it",
                    process,
                    ", ".join(map(str, held)),
                    seconds,
                    extra={"event": "holder_ended"},
                )
    except (psycopg.Error, MilepostError) as error:
        logger.info("who holds the partitions could not be found: %s", error)
