"""The parts of a verification, each for a process of its own: sessions up to another one, and some of the partitions."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import Final

import msgspec

from milepost.consumer import queries
from milepost.consumer.audit.against import AgainstLog
from milepost.consumer.audit.findings import Findings
from milepost.consumer.audit.log import AuditedLog
from milepost.consumer.audit.outcomes import Outcomes
from milepost.consumer.audit.partition import PartitionRow
from milepost.consumer.audit.places import Places, Which
from milepost.consumer.audit.session import Rules
from milepost.consumer.audit.sessions import Range, Sessions
from milepost.consumer.audit.view import policy_acts
from milepost.consumer.compare import snapshot
from milepost.consumer.database import Connection
from milepost.consumer.integrity import Keyring
from milepost.consumer.lookup import load_policies
from milepost.consumer.processes import Pool, Stop, share_out
from milepost.schemas import MilepostError

# processor time for each event, in microseconds or so, to share out alike
_SESSION_COST: Final = 20
_PLACE_COST: Final = 4
_RECORD_COST: Final = 50

Told = tuple[str, int]
"""A stage, and how many more of its rows or records were read."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What is verified, and by what; the same for all parts."""

    database: str
    snapshot: str | None
    """What all connections see; None when there is but one."""
    topic: str
    partitions: Sequence[PartitionRow]
    since: Sequence[int]
    """By partition: rows below are not verified, only looked at."""
    measured: frozenset[int]
    """Partitions whose sessions were all measured by the policies as they are."""
    keys: Keyring | None
    log: AuditedLog | None
    """To be compared with, record by record."""
    marks: Mapping[int, set[int]]
    """By partition: positions whose digests are wanted."""
    most: int


class Part(msgspec.Struct, frozen=True):
    """What one process does."""

    job: Job
    sessions: Range | None
    places: Which


class Found(msgspec.Struct):
    """What was found in a part."""

    findings: Findings
    rows: Counter[str]
    """Rows read, by table; `log` counts its records."""
    valid_now: int = 0
    digests: dict[tuple[int, int], bytes] = {}
    """By partition and offset, for each mark."""
    unchecked: list[str] = []


def parts_of(connection: Connection, job: Job, processes: int) -> list[Part]:
    """A verification in so many parts."""
    by_number = {row.partition: row for row in job.partitions}
    events = {row.partition: max(row.next_offset - job.since[row.partition], 0) for row in job.partitions}
    cost = _PLACE_COST if job.log is None else _RECORD_COST
    shares = share_out({partition: cost * count for partition, count in events.items()}, processes)
    ranges = _ranges(connection, job, _session_shares(shares, _SESSION_COST * sum(events.values())))
    return [
        Part(job, within, Which([by_number[partition] for partition in sorted(share)], list(by_number), not number))
        for number, (share, within) in enumerate(zip(shares, ranges, strict=True))
    ]


def _session_shares(shares: Sequence[Mapping[int, int]], cost: int) -> list[float]:
    """How much of the sessions each process takes beside its partitions, so that all have as much to do; 1 in all."""
    busy = [sum(share.values()) for share in shares]
    level = (sum(busy) + cost) / len(shares)
    room = [max(level - each, 0) for each in busy]
    return [each / (sum(room) or 1) for each in room]


def _ranges(connection: Connection, job: Job, shares: Sequence[float]) -> list[Range | None]:
    """The sessions for each process; when only some are verified, all of them for the first."""
    none: list[Range | None] = [None] * (len(shares) - 1)
    if len(shares) == 1 or any(job.since):
        return [Range(), *none]
    reached = list(accumulate(shares))[:-1]
    rows = connection.execute(queries.load("audit")["boundaries"], [reached], binary=True).fetchall()
    keys = [("", ""), *((str(tenant_id), str(session_id)) for tenant_id, session_id in rows), None]
    found: list[Range | None] = [Range(begin, end) for begin, end in pairwise(keys) if begin is not None]
    return found + none[len(found) - 1 :]


def run_parts(
    connection: Connection, parts: Sequence[Part], stop: Stop | None, tell: Callable[[str, int], None]
) -> list[Found]:
    """Verify all parts; the only one there is on this connection. Raises `KeyboardInterrupt` when told to stop."""
    if len(parts) == 1:
        return [verify_part(connection, parts[0], tell)]
    stop = stop or Stop()
    found = Pool(_work, parts, stop, lambda _number, told: tell(*told)).run()
    whole = [each for each in found if each is not None]
    if len(whole) < len(parts):
        raise KeyboardInterrupt
    return whole


class _StoppedError(Exception):
    """Who started us is gone."""


def _work(part: Part, stop: Stop, tell: Callable[[Told], None]) -> Found | None:
    # nothing is written, so it may be ended while the server sorts, too; Ctrl-C reaches who started us
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def told(stage: str, more: int) -> None:
        if stop():
            raise _StoppedError
        tell((stage, more))

    try:
        with snapshot(part.job.database, part.job.snapshot) as connection:
            return verify_part(connection, part, told)
    except _StoppedError:
        return None
    except MilepostError:
        raise
    except Exception as error:  # a process that crashes is started again, and would crash again
        raise MilepostError(f"{type(error).__name__}: {error}") from error


def verify_part(connection: Connection, part: Part, tell: Callable[[str, int], None]) -> Found:
    """Verify one part, in the open snapshot."""
    found = Found(Findings(part.job.most), Counter())
    if part.sessions is not None:
        _verify_sessions(connection, part.job, part.sessions, found, partial(tell, "sessions"))
    _verify_places(connection, part, found, tell)
    return found


def _verify_sessions(
    connection: Connection, job: Job, within: Range, found: Found, tell: Callable[[int], None]
) -> None:
    rules = Rules(
        found.findings,
        Outcomes(connection, found.findings),
        job.topic,
        dict(enumerate(job.since)),
        load_policies(connection),
        policy_acts(connection),
        job.measured,
        job.keys,
    )
    sessions = Sessions(connection, rules, within, job.since if any(job.since) else None, tell)
    sessions.run()
    found.rows.update(sessions.rows)


def _verify_places(connection: Connection, part: Part, found: Found, tell: Callable[[str, int], None]) -> None:
    """History, quarantine and log by position."""
    job, against = part.job, None
    if job.log is not None:
        against = AgainstLog(found.findings, job.log, job.since, job.marks, partial(tell, "log"))
    places = Places(connection, found.findings, part.places, job.since, partial(tell, "positions"), against)
    places.run()
    found.rows["quarantine"] += places.rows["quarantine"]
    found.valid_now = places.valid_now
    if against is not None:
        found.rows["log"] = against.records
        found.digests, found.unchecked = against.digests, against.unchecked
