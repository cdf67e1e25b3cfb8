"""`milepost audit verify`: the view against itself, against its log, against seals; in one snapshot, reading everything once."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from milepost.consumer import kafka as clients
from milepost.consumer.audit.against import AgainstLog
from milepost.consumer.audit.findings import Deviation, Findings
from milepost.consumer.audit.log import AuditedLog, PartitionLog
from milepost.consumer.audit.outcomes import Outcomes
from milepost.consumer.audit.partition import check_identity, count_of, read_partitions
from milepost.consumer.audit.places import Places
from milepost.consumer.audit.protections import check_protections
from milepost.consumer.audit.sealed import NamedSeal, SealResult, check_seal
from milepost.consumer.audit.session import Rules
from milepost.consumer.audit.sessions import Sessions
from milepost.consumer.audit.view import (
    Tell,
    Telling,
    part_note,
    part_of,
    policies_version,
    policy_acts,
    starts,
    view_of,
)
from milepost.consumer.compare import snapshot
from milepost.consumer.database import Connection
from milepost.consumer.integrity import Keyring
from milepost.consumer.log import LogIdentity, beginnings, ends, identify
from milepost.consumer.lookup import load_policies
from milepost.consumer.watch import compare
from milepost.schemas import InvalidSetting, Position

MOST: Final = 20


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


def verify(request: VerifyRequest, *, tell: Tell | None = None) -> VerifyReport:
    """Verify a view. Writes nothing, and may run beside a consumer.

    Raises `WrongView` for a view that is no whole one, not seen as a whole, or damaged, `WrongLog` when the log is another one
    than the view's, `KafkaUnavailable`, `DatabaseUnavailable`.
    """
    with snapshot(request.database) as connection:
        return _Verification(connection, request, tell).run()


class _Verification:
    def __init__(self, connection: Connection, request: VerifyRequest, tell: Tell | None) -> None:
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
        self._sessions()
        digests = self._places(log)
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
        return AuditedLog(client, request.kafka, found, first, last, part_of(self._state))

    def _sessions(self) -> None:
        version = policies_version(self._connection)
        rules = Rules(
            self._findings,
            Outcomes(self._connection, self._findings),
            self._log.topic,
            dict(enumerate(self._since)),
            load_policies(self._connection),
            policy_acts(self._connection),
            frozenset(row.partition for row in self._partitions if row.retention_version == version),
            self._request.keys,
        )
        since = self._since if any(self._since) else None
        sessions = Sessions(self._connection, rules, since, self._telling.sessions)
        sessions.run()
        self._rows += sessions.rows
        self._checked += ["history", "sessions", "checkpoints", *(["macs"] if rules.keys is not None else [])]
        if len(rules.measured) < len(self._partitions):
            self._notes.append(
                "not all sessions were measured by the policies as they are: rows beyond them are no deviation"
            )

    def _places(self, log: AuditedLog | None) -> dict[tuple[int, int], bytes]:
        """History, quarantine and log by position. Gives the digests that seals ask for."""
        against = None
        if log is not None and self._request.against_log:
            against = AgainstLog(self._findings, log, self._since, self._marks(), self._telling.log)
        places = Places(self._connection, self._findings, self._partitions, self._since, self._telling.places, against)
        places.run()
        self._rows["quarantine"] = places.rows["quarantine"]
        self._checked.append("quarantine")
        if any(self._since):
            self._notes.append(
                "totals, publishers and digests of partitions verified from a position on were not compared"
            )
        else:
            self._checked += ["partitions", "publishers"]
        if places.valid_now:
            self._notes.append(
                f"{places.valid_now} records in the quarantine are valid now: see milepost quarantine retry"
            )
        if against is None:
            return {}
        self._checked.append("log")
        self._rows["log"] = against.records
        self._unchecked += against.unchecked
        return against.digests

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
                read = PartitionLog(log, partition, begin, end, wanted, self._telling.log)
                digests |= {(partition, offset): digest for offset, digest in read.read_digests().items()}
        by_number = {row.partition: row for row in self._partitions}
        first = log.beginnings if log is not None else None
        keys = self._request.public_keys
        return [check_seal(self._findings, seal, keys, by_number, digests, first) for seal in self._request.seals]
