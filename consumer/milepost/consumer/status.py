"""How far the view is behind the log, and what it holds."""

from __future__ import annotations

from contextlib import closing
from datetime import datetime
from typing import LiteralString

import msgspec

from milepost.consumer import kafka, queries
from milepost.consumer.database import Connection, connect, scalar, translated
from milepost.consumer.log import ends
from milepost.consumer.migrate import require_current
from milepost.consumer.watch import require_bound
from milepost.schemas import WrongView


class PartitionStatus(msgspec.Struct, frozen=True):
    """One partition of the log, and where the view stands in it."""

    partition: int
    next_offset: int
    log_end: int
    lag: int
    """Records that the view has not taken in yet."""
    log_time: datetime | None
    """The log's time of the last record taken in."""


class Status(msgspec.Struct, frozen=True):
    """Which log, how far, and what the view holds."""

    cluster_id: str
    topic: str
    topic_id: str
    lag: int
    sessions: int
    checkpoints: int
    live_bytes: int
    events: int
    applied: int
    duplicates: int
    stale: int
    conflicts: int
    quarantined: int
    quarantine_open: int
    missing: int
    """Events that publishers numbered and the view has not seen: lost, or, while there is lag, on their way."""
    partitions: list[PartitionStatus]


_TOTALS: LiteralString = """
select (select count(*) from milepost.sessions),
       (select coalesce(sum(live_checkpoints), 0)::bigint from milepost.sessions),
       (select coalesce(sum(live_bytes), 0)::bigint from milepost.sessions),
       coalesce(sum(events), 0)::bigint, coalesce(sum(applied), 0)::bigint, coalesce(sum(duplicates), 0)::bigint,
       coalesce(sum(stale), 0)::bigint, coalesce(sum(conflicts), 0)::bigint, coalesce(sum(quarantined), 0)::bigint,
       (select count(*) from milepost.quarantine where status = 'open')
from milepost.partitions
"""


def read_status(servers: str, topic: str, database: str) -> Status:
    """The status of a view and its log.

    Raises `WrongView` when the view belongs to no log yet, `WrongLog` when it is a view of another one.
    """
    client = kafka.admin(servers)
    with closing(connect(database, application="milepost-status")) as connection, translated(database):
        require_current(connection)
        found = require_bound(client, servers, connection, topic)
        # positions before ends: the lag is never shown as less than nothing
        partitions = connection.execute(
            "select partition, next_offset, log_time from milepost.partitions order by partition", binary=True
        ).fetchall()
        totals = _totals(connection)
        missing = scalar(connection, queries.load("gaps")["missing"])
    last = ends(client, servers, found)
    rows = [
        PartitionStatus(partition, offset, last[partition], last[partition] - offset, log_time)
        for partition, offset, log_time in partitions
    ]
    lag = sum(row.lag for row in rows)
    return Status(
        found.cluster_id, found.topic, found.topic_id, lag, *totals, missing=int(str(missing)), partitions=rows
    )


def _totals(connection: Connection) -> tuple[int, int, int, int, int, int, int, int, int, int]:
    row = connection.execute(_TOTALS).fetchone()
    if row is None:
        raise WrongView("expected totals in milepost.partitions, found none")
    return row
