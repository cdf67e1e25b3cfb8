"""`milepost topic migrate`: a log copied to a wider topic, and the copy compared with it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Final

import msgspec
from confluent_kafka.admin import AdminClient

from milepost.consumer import kafka
from milepost.consumer.log import LogIdentity, beginnings, check_topic, describe_settings, ends, identify
from milepost.consumer.topic import target as targets
from milepost.consumer.topic.copy import Copier
from milepost.consumer.topic.merge import MergedLog
from milepost.consumer.topic.numbering import Numbering
from milepost.consumer.topic.placement import Placement, at
from milepost.consumer.topic.verify import Chains, differences, read_chains
from milepost.schemas import InvalidSetting, Unavailable, WrongLog

_WAIT_SECONDS: Final = 0.5
_AGAIN: Final = "the copy is unfinished; begin again by the same command with --replace"

Tell = Callable[[str, int, int], None]
"""Told what is being done, how many records of it are done, and of how many at most."""


class MigrationRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to copy, and where to."""

    kafka: str
    topic: str
    to: str
    partitions: int
    replication_factor: int | None = None
    """None for that of the source."""
    replace: bool = False
    """Delete an unfinished copy first."""


class Migration(msgspec.Struct):
    """What was copied."""

    source: LogIdentity
    target: LogIdentity
    records: int
    keys: int
    """How many keys they have; records without one, or not in its partition, count apart for each partition."""
    differences: list[str]
    """What the copy does not hold as the source does; none when it is a log to go on with."""
    numbers_changed: int
    """Numbered events that a view of the copy counts and one of the source does not, or the other way round."""
    seconds: float


def migrate_topic(request: MigrationRequest, *, stop: Callable[[], bool], tell: Tell) -> Migration:
    """Copy a log to a topic with as many partitions or more, and compare what both hold.

    The source is read as it is now and never written to. Raises `InvalidSetting` for fewer partitions, `WrongLog` for a source
    that is no whole log or that grew meanwhile, or a target with records; `Unavailable` when told to stop.
    """
    started = time.monotonic()
    client = kafka.admin(request.kafka)
    source = _checked_source(client, request)
    end = ends(client, request.kafka, source)
    target = targets.prepare(
        *(client, request.kafka, source, request.to, request.partitions),
        copies=request.replication_factor,
        replace=request.replace,
    )
    changed = _copy(request, source, end, stop, tell)
    _require_still(client, request.kafka, source, end)
    found, records, keys = _verify(client, request, source, target, end, stop, tell)
    _require_still(client, request.kafka, source, end)
    if not found:
        targets.finish(client, request.kafka, request.to)
    return Migration(source, target, records, keys, found, changed, time.monotonic() - started)


def _checked_source(client: AdminClient, request: MigrationRequest) -> LogIdentity:
    if request.to == request.topic:
        raise InvalidSetting(f"to: expected another name than the source's, found {request.to}")
    source = identify(client, request.kafka, request.topic)
    if request.partitions < source.partitions:
        raise InvalidSetting(
            f"partitions: expected {source.partitions} or more, as {source.topic} has, found {request.partitions}"
        )
    if targets.is_unfinished(describe_settings(client, request.kafka, source.topic)):
        raise WrongLog(f"{source.topic} is an unfinished copy of a log; name the log itself")
    check_topic(client, request.kafka, source.topic)
    gone = sum(beginnings(client, request.kafka, source).values())
    if gone:
        raise WrongLog(
            f"the log {source.topic} does not begin at its beginning any more: {gone} records are gone; a copy would hide that"
        )
    return source


def _copy(
    request: MigrationRequest, source: LogIdentity, end: Mapping[int, int], stop: Callable[[], bool], tell: Tell
) -> int:
    """Copy all records below `end`; how many numbered events will be counted otherwise."""
    placement, numbering = Placement(source.partitions, request.partitions), Numbering()
    done = 0
    with (
        closing(MergedLog(request.kafka, source.topic, end)) as log,
        closing(Copier(request.kafka, request.to)) as copier,
    ):
        while not log.is_done:
            for message in log.read(_WAIT_SECONDS):
                partition = placement.of(message)
                headers = copier.add(message, partition, stop)
                number = numbering.follow(message, partition, headers)
                if number is not None and request.partitions % source.partitions:
                    raise WrongLog(
                        f"event {number.seq} of publisher {number.publisher_id.hex()} would stand after a later one of it in a "
                        f"partition of {request.to}, and be taken for lost; choose a multiple of {source.partitions} partitions, "
                        f"such as {2 * source.partitions}; {_AGAIN}"
                    )
                done += 1
            copier.poll()
            tell("copying", done, sum(end.values()))
            _require_going(stop)
        copier.flush(stop)
        _require_going(stop)
    return numbering.changed


def _verify(
    client: AdminClient,
    request: MigrationRequest,
    source: LogIdentity,
    target: LogIdentity,
    end: Mapping[int, int],
    stop: Callable[[], bool],
    tell: Tell,
) -> tuple[list[str], int, int]:
    """Read both sides again: what differs, how many records and how many keys there are."""
    placement = Placement(source.partitions, request.partitions)
    ours, theirs = Chains(placement, placement.of), Chains(placement, at)
    sides = (
        ("reading the source", source, end, ours),
        ("reading the copy", target, ends(client, request.kafka, target), theirs),
    )
    for what, side, until, chains in sides:
        total = sum(until.values())
        with closing(MergedLog(request.kafka, side.topic, until)) as log:
            read_chains(log, chains, stop, lambda done, what=what, total=total: tell(what, done, total))  # type: ignore[misc]
    _require_going(stop)
    return differences(ours, theirs), ours.records.total(), len(ours.of)


def _require_going(stop: Callable[[], bool]) -> None:
    if stop():
        raise Unavailable(f"stopped before the end; {_AGAIN}")


def _require_still(client: AdminClient, servers: str, source: LogIdentity, end: Mapping[int, int]) -> None:
    """Raise `WrongLog` when something came into the source since the copy began."""
    if identify(client, servers, source.topic) != source:
        raise WrongLog(f"the topic {source.topic} was created again or widened meanwhile; {_AGAIN}")
    now = ends(client, servers, source)
    if came := sum(now.values()) - sum(end.values()):
        raise WrongLog(f"{came} records came into {source.topic} since the copy began; stop its publishers; {_AGAIN}")
