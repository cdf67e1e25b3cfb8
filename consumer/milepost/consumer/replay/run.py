"""`milepost replay`: prepares the target, shares the partitions out among processes, and marks the view complete."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from hashlib import sha256
from typing import Final

import msgspec

from milepost.consumer import kafka, migrate
from milepost.consumer.config import ConsumeConfig
from milepost.consumer.database import Connection, connect, translated
from milepost.consumer.integrity.keys import keyring
from milepost.consumer.log import LogIdentity, beginnings, ends
from milepost.consumer.materializer import Applied
from milepost.consumer.processes import Pool, Stop, share_out
from milepost.consumer.replay.plan import ReplayRequest, ReplayState, begin, store
from milepost.consumer.replay.worker import Progress, ReplayWorker, Share
from milepost.consumer.watch import require
from milepost.schemas import WrongLog

_BATCH_EVENTS: Final = 3_000
_BATCH_BYTES: Final = 24 * 1024 * 1024
"""Nobody reads the view meanwhile, so that larger transactions cost nobody time; each head is written less often."""

Tell = Callable[[int, Progress], None]
"""Told the number of a process and how far it is."""


class ReplayReport(msgspec.Struct):
    """What a replay did in this run."""

    complete: bool
    resumed: bool
    log: LogIdentity
    applied: Applied
    events: int
    state_bytes: int
    written: int
    """States that were written."""
    skipped: int
    """States that were not: later events prune or delete them."""
    log_digest: str
    """Of all partitions' positions and digests: what the view has read, in 32 bytes."""
    seconds: float


def replay(request: ReplayRequest, *, stop: Stop | None = None, tell: Tell | None = None) -> ReplayReport:
    """Rebuild a view in the target, from the log's beginning to its end as it is now, or as the request says.

    Killed at any moment and started again with the same request, it goes on from what was committed. Raises `WrongView` for a
    target that holds another view, `WrongLog` for a log that does not begin at its beginning.
    """
    started = time.monotonic()
    # a file that is no key is found out here, and not by each process
    keyring(request.integrity_keys)
    client = kafka.admin(request.kafka)
    with closing(connect(request.database, application="milepost-replay")) as connection, translated(request.database):
        migrate.apply(connection)
        log = require(client, request.kafka, connection, request.topic)
        first = beginnings(client, request.kafka, log)
        if not request.accept_missing:
            _check_beginning(first, log)
        state, resumed = begin(connection, request, ends(client, request.kafka, log), sum(first.values()))
        progress = {} if state.complete else _run(_shares(request, state, first, resumed), stop or Stop(), tell)
        complete = progress is not None
        if complete and not state.complete:
            connection.execute("analyze milepost.sessions, milepost.checkpoints, milepost.history")
            store(connection, msgspec.structs.replace(state, complete=True))
        digest = _log_digest(connection)
    total = _total(progress or {})
    seconds = time.monotonic() - started
    skipped = max(total.applied.skipped + total.applied.written - total.written, 0)
    return ReplayReport(
        complete, resumed, log, total.applied, total.events, total.state_bytes, total.written, skipped, digest, seconds
    )


def _log_digest(connection: Connection) -> str:
    """SHA-256, in hex, over a line for each partition in order: its number, its next offset, its digest in hex."""
    rows = connection.execute(
        "select partition, next_offset, encode(digest, 'hex') from milepost.partitions order by partition"
    )
    return sha256(
        "".join(f"{partition} {offset} {digest}\n" for partition, offset, digest in rows).encode()
    ).hexdigest()


def _check_beginning(first: Mapping[int, int], log: LogIdentity) -> None:
    missing = {partition: offset for partition, offset in first.items() if offset}
    if missing:
        raise WrongLog(
            f"the log {log.topic} does not begin at its beginning any more: {sum(missing.values())} records are gone from "
            f"partitions {', '.join(str(partition) for partition in sorted(missing))}; a view built from it would lack them, "
            "and number what follows anew; go on with --accept-missing, or copy the lost part back"
        )


def _shares(request: ReplayRequest, state: ReplayState, first: Mapping[int, int], resumed: bool) -> list[Share]:
    config = ConsumeConfig(
        kafka=request.kafka,
        topic=request.topic,
        database=request.database,
        integrity_keys=request.integrity_keys,
        batch_events=_BATCH_EVENTS,
        batch_bytes=_BATCH_BYTES,
    )
    key = None
    if request.tenant_id is not None:
        key = f"{request.tenant_id}/{request.session_id or ''}".encode()
    return [
        Share(config, end, len(first), resumed, {p: first[p] for p in end if first[p]}, key)
        for end in share_out(state.until, request.processes)
        if end
    ]


def _run(shares: list[Share], stop: Stop, tell: Tell | None) -> dict[int, Progress] | None:
    """Run all shares; what each did, or None when they were told to stop before the end."""
    latest: dict[int, Progress] = {}

    def told(number: int, progress: Progress) -> None:
        latest[number] = progress
        if tell is not None:
            tell(number, progress)

    if len(shares) == 1:
        done = ReplayWorker(shares[0], stop=stop, tell=lambda progress: told(0, progress)).run()
        return latest if done else None
    results = Pool(_work, shares, stop, told).run()
    # one that was told to stop before it could hear it gives no result
    return latest if len(results) == len(shares) and all(results) else None


def _work(share: Share, stop: Stop, tell: Callable[[Progress], None]) -> bool:
    return ReplayWorker(share, stop=stop, tell=tell).run()


def _total(progress: Mapping[int, Progress]) -> Progress:
    total = Progress()
    for each in progress.values():
        total.events += each.events
        total.state_bytes += each.state_bytes
        total.written += each.written
        total.applied += each.applied
    return total
