"""Ends of a replay before the log's own: the log as it was at a time, or up to positions."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from milepost.consumer.log import LogIdentity, ends, offsets
from milepost.schemas import InvalidSetting, Position


def at_time(client: AdminClient, servers: str, log: LogIdentity, moment: datetime) -> dict[int, int]:
    """Where the log ended at a moment, by its own clock: records of that very millisecond are in."""
    # Kafka's times begin with 1970, and negative ones mean something else to it
    spec = OffsetSpec.for_timestamp(max(int(moment.timestamp() * 1_000) + 1, 0))
    last = ends(client, servers, log)
    found = offsets(client, servers, log, spec)
    # no later record: the end as it is
    return {partition: offset if offset >= 0 else last[partition] for partition, offset in found.items()}


def at_positions(client: AdminClient, servers: str, log: LogIdentity, positions: Iterable[Position]) -> dict[int, int]:
    """Up to and with these records; partitions that are not named up to their ends.

    Raises `InvalidSetting` for a position of another topic, or one that the log has not reached.
    """
    last = ends(client, servers, log)
    until = dict(last)
    for position in positions:
        if position.topic != log.topic or position.partition not in last:
            raise InvalidSetting(f"until-position: expected a position in {log.topic}, found {position}")
        if position.offset >= last[position.partition]:
            raise InvalidSetting(
                f"until-position: expected an offset below {last[position.partition]}, where the partition ends, found {position}"
            )
        until[position.partition] = position.offset + 1
    return until
