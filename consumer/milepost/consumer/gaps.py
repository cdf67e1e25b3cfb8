"""Which events publishers numbered that the log does not hold.

A publisher numbers its events from 1, so those that are missing are its highest number less the events seen of it. What
came after the last event seen can't be missed before another one comes.
"""

from __future__ import annotations

import time
from contextlib import closing
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import msgspec

from milepost.consumer import kafka, queries
from milepost.consumer.database import Connection, connect, translated
from milepost.consumer.log import ends
from milepost.consumer.migrate import require_current
from milepost.consumer.watch import require_bound
from milepost.schemas import Unavailable

QUIET: Final = timedelta(seconds=60)
"""A publisher that was silent for so long has nothing on its way between partitions."""
_PAUSE_SECONDS: Final = 0.1


class PublisherGap(msgspec.Struct, frozen=True):
    """One publisher instance: what the log holds of it, and what it lacks."""

    publisher_id: UUID
    source: str
    events: int
    """Events seen, each counted once, those in the quarantine among them."""
    highest_seq: int
    """The highest number seen: so many it had made by then."""
    missing: int
    """Events that it numbered and the log does not hold."""
    first_seen: datetime
    """The log's time of its first event; UTC."""
    last_seen: datetime


class Gaps(msgspec.Struct, frozen=True):
    """All publishers of a view."""

    missing: int
    publishers: list[PublisherGap]


def read_gaps(servers: str, topic: str, database: str, *, timeout: float, settle: float) -> Gaps:
    """What is missing of each publisher, once the view has passed the log's end as it is now.

    Waits for the view for at most `timeout` seconds. Where something is missing of a publisher that is still at work, it
    looks again for `settle` seconds, since events reach the partitions in any order; the least that was missing counts.
    Raises `Unavailable` when the view is still behind, `WrongView`, `WrongLog`.
    """
    client = kafka.admin(servers)
    with closing(connect(database, application="milepost-audit")) as connection, translated(database):
        require_current(connection)
        found = require_bound(client, servers, connection, topic)
        _wait(connection, ends(client, servers, found), timeout)
        gaps = _read(connection, {})
        deadline = time.monotonic() + settle
        while _may_close(gaps) and time.monotonic() < deadline:
            time.sleep(_PAUSE_SECONDS)
            _wait(connection, ends(client, servers, found), timeout)
            gaps = _read(connection, {each.publisher_id: each.missing for each in gaps.publishers})
        return gaps


def _wait(connection: Connection, wanted: dict[int, int], timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while behind := _behind(connection, wanted):
        if time.monotonic() >= deadline:
            raise Unavailable(
                f"the view is {behind} records behind the log, so what is missing can't be told; "
                "run: milepost consume --until-caught-up, then this again"
            )
        time.sleep(_PAUSE_SECONDS)


def _behind(connection: Connection, wanted: dict[int, int]) -> int:
    positions: dict[int, int] = dict(connection.execute(queries.load("gaps")["positions"]).fetchall())
    return sum(max(end - positions.get(partition, 0), 0) for partition, end in wanted.items())


def _read(connection: Connection, before: dict[UUID, int]) -> Gaps:
    """What is missing now, or was at an earlier look, whichever is less: events don't get lost again by arriving."""
    publishers = []
    for publisher_id, source, events, highest, first, last in connection.execute(queries.load("gaps")["publishers"]):
        missing = max(highest - events, 0)
        missing = min(missing, before.get(publisher_id, missing))
        publishers.append(PublisherGap(publisher_id, source, events, highest, missing, first, last))
    return Gaps(sum(each.missing for each in publishers), publishers)


def _may_close(gaps: Gaps) -> bool:
    """Whether what is missing may still be on its way."""
    newest = max((each.last_seen for each in gaps.publishers), default=None)
    return newest is not None and any(
        each.missing and datetime.now(each.last_seen.tzinfo) - each.last_seen < QUIET for each in gaps.publishers
    )
