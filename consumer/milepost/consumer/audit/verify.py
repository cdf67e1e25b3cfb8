"""`milepost audit verify`: the view against itself, against its log, against seals; in one snapshot, reading everything once."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from milepost.consumer import kafka as clients
from milepost.consumer.audit.findings import Deviation, Findings
from milepost.consumer.audit.log import AuditedLog, PartitionLog
from milepost.consumer.audit.partition import check_identity, count_of, read_partitions
from milepost.consumer.audit.parts import Job, parts_of, run_parts
from milepost.consumer.audit.protections import check_protections
from milepost.consumer.audit.sealed import NamedSeal, SealResult, check_seal
from milepost.consumer.audit.view import (
    Tell,
    Telling,
    part_note,
    part_of,
    policies_version,
    starts,
    view_of,
)
from milepost.consumer.compare import snapshot
from milepost.consumer.database import Connection, scalar
from milepost.consumer.integrity import Keyring
from milepost.consumer.log import LogIdentity, beginnings, ends, identify
from milepost.consumer.processes import Stop
from milepost.consumer.watch import compare
from milepost.schemas import InvalidSetting, Position

MOST: Final = 20
_RECORDS_FOR_ANOTHER: Final = 20_000
"""Records that take as long as the start of a process."""


class VerifyRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to verify."""

    database: str
    kafka: str | None = None
    """Needed against the log, and for seals of earlier positions."""
    topic: str | None = None
    """The log's name; the one that the view says when left out."""
    against_log: bool = False
    since: Sequence[Position] = ()
    """Verify records from these positions on, in their partitions; their topic may be empty."""
    seals: Sequence[NamedSeal] = ()
    public_keys: Sequence[Ed25519PublicKey] = ()
    keys: Keyring | None = None
    """Integrity keys, to check the MACs of rows and heads."""
    most: int = MOST
    """How many deviations are kept; all are counted."""
    processes: int = 1
    """Among how many to share the work out; fewer take part when there is little of it. More than one need the main thread,
    unless `stop` is given, as SIGINT and SIGTERM are then handled."""


class VerifyReport(msgspec.Struct):
    """What was verified and what was found."""

    verified: bool
    """No deviation, and all that was asked for could be checked."""
    log: LogIdentity
    positions: dict[int, int]
    """By partition, the next offset of the view in the snapshot that was verified."""
    rows: dict[str, int]
    """Rows read, by table; `log` counts its records."""
    deviations: int
    by_field: dict[str, int]
    first: list[Deviation]
    checked: list[str]
    unchecked: list[str]
    """What was asked for and could not be checked, with the reason."""
    notes: list[str]
    seals: list[SealResult]
    seconds: float


def verify(request: VerifyRequest, *, stop: Stop | None = None, tell: Tell | None = None) -> VerifyReport:
    """Verify a view. Writes nothing, and may run beside a consumer. `stop`, which is `Stop()` unless given, ends it when
    several processes work: `KeyboardInterrupt` is raised then.

    Raises `WrongView` for a view that is no whole one, not seen as a whole, or damaged, `WrongLog` when the log is another one
    than the view's, `KafkaUnavailable`, `DatabaseUnavailable`.
    """
    with snapshot(request.database) as connection:
        return _Verification(connection, request, stop, tell).run()


def _exported(connection: Connection) -> str:
    """What this connection sees, for others to see the same."""
    return str(scalar(connection, "select pg_export_snapshot()"))


class _Verification:
    def __init__(self, connection: Connection, request: VerifyRequest, stop: Stop | None, tell: Tell | None) -> None:
        self._stop = stop
        self._connection = connection
        self._request = request
        self._log, self._state = view_of(connection, whole=bool(request.seals))
        rows = read_partitions(connection)
        self._log = msgspec.structs.replace(self._log, partitions=count_of(rows))
        self._findings = Findings(request.most)
        check_identity(self._findings, rows, self._log)
        self._partitions = [row for row in rows if 0 <= row.partition < self._log.partitions]
        self._since = starts(request.since, self._log, self._partitions)
        self._telling = Telling(connection, self._partitions, self._since, tell)
        self._rows: Counter[str] = Counter()
        self._checked = ["protections"]
        self._unchecked: list[str] = []
        self._notes = part_note(self._state)

    def run(self) -> VerifyReport:
        started = time.monotonic()
        check_protections(self._connection, self._findings)
        log = self._audited_log()
        digests = self._verify(log)
        seals = self._seals(log, digests)
        unchecked = [*self._unchecked, *(f"seal {seal.name}: {each}" for seal in seals for each in seal.unchecked)]
        return VerifyReport(
            verified=not (self._findings.total or unchecked),
            log=self._log,
            positions={row.partition: row.next_offset for row in self._partitions},
            rows=dict(self._rows),
            deviations=self._findings.total,
            by_field=dict(sorted(self._findings.counts.items())),
            first=self._findings.first,
            checked=self._checked,
            unchecked=unchecked,
            notes=self._notes,
            seals=seals,
            seconds=round(time.monotonic() - started, 3),
        )

    def _audited_log(self) -> AuditedLog | None:
        """The log, when it is to be read: checked to be the view's own."""
        request = self._request
        if request.against_log and request.kafka is None:
            raise InvalidSetting("kafka: expected HOST:PORT to verify against the log, found nothing")
        if request.kafka is None or not (request.against_log or self._marks()):
            return None
        client = clients.admin(request.kafka)
        found = identify(client, request.kafka, request.topic or self._log.topic)
        compare(self._log, found)
        first, last = beginnings(client, request.kafka, found), ends(client, request.kafka, found)
        return AuditedLog(request.kafka, found, first, last, part_of(self._state))

    def _verify(self, log: AuditedLog | None) -> dict[tuple[int, int], bytes]:
        """All rows, by as many processes as were asked for. Gives the digests that seals ask for."""
        request, version = self._request, policies_version(self._connection)
        processes = min(request.processes, 1 + self._telling.records // _RECORDS_FOR_ANOTHER)
        job = Job(
            database=request.database,
            snapshot=_exported(self._connection) if processes > 1 else None,
            topic=self._log.topic,
            partitions=self._partitions,
            since=self._since,
            measured=frozenset(row.partition for row in self._partitions if row.retention_version == version),
            keys=request.keys,
            log=log if request.against_log else None,
            marks=self._marks(),
            most=request.most,
        )
        found = run_parts(self._connection, parts_of(self._connection, job, processes), self._stop, self._telling.told)
        for each in found:
            self._findings.merge(each.findings)
            self._rows.update(each.rows)
            self._unchecked += each.unchecked
        self._say(job, sum(each.valid_now for each in found))
        return {place: digest for each in found for place, digest in each.digests.items()}

    def _say(self, job: Job, valid_now: int) -> None:
        """What was checked, and what must be said of it."""
        self._checked += [
            "history",
            "sessions",
            "checkpoints",
            *(["macs"] if job.keys is not None else []),
            "quarantine",
        ]
        if len(job.measured) < len(self._partitions):
            self._notes.append(
                "not all sessions were measured by the policies as they are: rows beyond them are no deviation"
            )
        if any(self._since):
            self._notes.append(
                "totals, publishers and digests of partitions verified from a position on were not compared"
            )
        else:
            self._checked += ["partitions", "publishers"]
        if valid_now:
            self._notes.append(f"{valid_now} records in the quarantine are valid now: see milepost quarantine retry")
        if job.log is not None:
            self._checked.append("log")

    def _marks(self) -> dict[int, set[int]]:
        """The positions before the view's own whose digests seals ask for, by partition."""
        marks: defaultdict[int, set[int]] = defaultdict(set)
        stands = {row.partition: row.next_offset for row in self._partitions}
        for named in self._request.seals:
            for sealed in named.seal.partitions:
                if sealed.next_offset < stands.get(sealed.partition, 0):
                    marks[sealed.partition].add(sealed.next_offset)
        return marks

    def _seals(self, log: AuditedLog | None, digests: dict[tuple[int, int], bytes]) -> list[SealResult]:
        for partition, marks in self._marks().items():
            wanted = [mark for mark in marks if (partition, mark) not in digests]
            if log is not None and wanted:
                end = min(max(wanted), log.ends.get(partition, 0))
                begin = log.beginnings.get(partition, 0)
                read = PartitionLog(log, partition, begin, end, wanted, partial(self._telling.told, "log"))
                digests |= {(partition, offset): digest for offset, digest in read.read_digests().items()}
        by_number = {row.partition: row for row in self._partitions}
        first = log.beginnings if log is not None else None
        keys = self._request.public_keys
        return [check_seal(self._findings, seal, keys, by_number, digests, first) for seal in self._request.seals]
