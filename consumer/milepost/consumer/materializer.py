"""The promise: one transaction moves a batch's rows, history, heads, retention and the partitions' positions together.

First of all the stored position is compared and held: who has lost a partition changes nothing.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final, NoReturn

import msgspec
import psycopg

from milepost.consumer import queries
from milepost.consumer.database import WRITER_NEEDS, Connection, connect, scalar, translate
from milepost.consumer.heads import Head, HeadCache, SessionKey
from milepost.consumer.integrity.keys import Keyring
from milepost.consumer.integrity.signer import Signer, require_same
from milepost.consumer.lookup import load_heads, load_known, load_policies
from milepost.consumer.overlap import OverlappingConnection, Piece, Silence, nothing, patient
from milepost.consumer.plan import HistoryRow, Plan, Stand, moves_of
from milepost.consumer.records import LogRecord
from milepost.consumer.retention import Policies
from milepost.consumer.rules import Outcome
from milepost.consumer.staging import stage
from milepost.consumer.stopped import end_stopped
from milepost.consumer.sweep import Sweep
from milepost.consumer.write import RefusedRowError, refusals, write_plan
from milepost.schemas import Fenced, InvalidRecord, MilepostError, Reason, WrongView

logger = logging.getLogger(__name__)

_WRITER_SETTINGS: Final = {
    # every statement finds its rows by index; a plan made while the tables were empty must not scan them later
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    # a bitmap scan leaves dead index entries unmarked, and each prune would walk them again (docs/performance.md)
    "enable_bitmapscan": "off",
    "jit": "off",
    # a lock that somebody holds for long is waited for in the loop, where a stop is heard
    "lock_timeout": "10s",
    # whoever was stopped (SIGSTOP, a frozen machine) inside a transaction would keep its partitions locked until it wakes;
    # in the middle of a COPY this does not end it: see stopped.py, and for a machine that is gone the keepalives
    "idle_in_transaction_session_timeout": "10s",
    "tcp_keepalives_idle": "20",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "4",
    "statement_timeout": "5min",
}
_LINES_TRUSTED: Final = 4
"""How many refused rows of a batch are found by Postgres' own line number before the batch is searched instead."""


class Applied(msgspec.Struct):
    """What a batch did."""

    outcomes: dict[Outcome, int]
    quarantined: int
    written: int
    """Checkpoints inserted; those pruned in the same batch never were."""
    transactions: int
    """Transactions begun: one, unless Postgres refused a record."""
    skipped: int = 0
    """Checkpoints that were never inserted, since the same batch pruned or deleted them."""
    pruned: int = 0
    """Checkpoints that retention removed, those that were never inserted counted too."""
    state_bytes: int = 0
    reasons: dict[str, int] = msgspec.field(default_factory=dict)
    """Quarantined records by reason."""

    @property
    def counts(self) -> dict[str, int]:
        """What became of the records, by the names of the totals in `milepost.partitions`."""
        return {
            "applied": self.outcomes.get(Outcome.APPLIED, 0),
            "duplicates": self.outcomes.get(Outcome.DUPLICATE, 0),
            "stale": self.outcomes.get(Outcome.STALE, 0),
            "conflicts": self.outcomes.get(Outcome.CONFLICT, 0),
            "quarantined": self.quarantined,
        }

    def __iadd__(self, other: Applied) -> Applied:
        for outcome, count in other.outcomes.items():
            self.outcomes[outcome] = self.outcomes.get(outcome, 0) + count
        self.quarantined += other.quarantined
        self.written += other.written
        self.transactions += other.transactions
        self.skipped += other.skipped
        self.pruned += other.pruned
        self.state_bytes += other.state_bytes
        for reason, count in other.reasons.items():
            self.reasons[reason] = self.reasons.get(reason, 0) + count
        return self


class Materializer:
    """Writes batches of one log into one database. Not for several threads.

    After any error the positions are unknown: call `take` again before the next `apply`.
    """

    def __init__(self, database: str, topic: str, keys: Keyring | None = None) -> None:
        self._database = database
        self._topic = topic
        self.meanwhile: Piece = nothing
        """Other work, done in pieces while Postgres is busy."""
        self.silence: Silence = patient
        """Told when Postgres takes long; may raise `DatabaseUnavailable` to wait no longer."""
        self.before_commit: Callable[[], None] = _nothing_to_settle
        """Called in a batch's transaction when all is written. What it raises undoes it."""
        self._signer = Signer(keys, topic) if keys is not None else None
        self._connection: OverlappingConnection | None = None
        self._heads = HeadCache()
        self._policies: Policies | None = None
        self._positions: dict[int, Stand] = {}
        self._sweep: Sweep | None = None

    @property
    def positions(self) -> dict[int, int]:
        """The next offset of each partition that was taken."""
        return {partition: stand.next_offset for partition, stand in self._positions.items()}

    def connection(self) -> Connection:
        """The connection, made anew when the last one is gone. It acts as `milepost_writer` where it may."""
        if self._connection is None or self._connection.closed:
            self._connection = connect(self._database, application="milepost-consumer")
            with self._translated():
                become_writer(self._connection)
        self._connection.meanwhile, self._connection.silence = self.meanwhile, self.silence
        return self._connection

    def take(self, partitions: Iterable[int]) -> dict[int, int]:
        """Read where these partitions stand, and forget what was known of their sessions. Returns their next offsets."""
        wanted = list(partitions)
        self._heads.forget_partitions(wanted)
        with self._translated():
            connection = self.connection()
            require_same(connection, self._signer is not None)
            self._policies = load_policies(connection)
            rows = connection.execute(queries.load("materialize")["positions"], [wanted]).fetchall()
        self._positions.update({partition: Stand(*stand) for partition, *stand, _ in rows})
        if any(version != self._policies.version for *_, version in rows):
            self._sweep = Sweep(self._policies, self._signer)
        return {partition: offset for partition, offset, *_ in rows}

    def release(self, partitions: Iterable[int]) -> None:
        """Forget partitions that belong to another consumer now."""
        gone = set(partitions)
        self._heads.forget_partitions(gone)
        for partition in gone:
            self._positions.pop(partition, None)

    def apply(self, records: Sequence[LogRecord]) -> Applied:
        """Apply records, each partition's in log order from its next offset, all in one transaction.

        A record that Postgres refuses goes to the quarantine and the others are applied all the same.
        Raises `Fenced` when another consumer moved a position, `DatabaseUnavailable` for what may work later.
        """
        if not records:
            return Applied({}, 0, 0, 0)
        for transaction in range(1, _LINES_TRUSTED + 2):
            try:
                applied = self._write(records)
            except RefusedRowError as refused:
                last = refused
                if refused.record is None:
                    break
                records = [_refused(record, refused) if record is refused.record else record for record in records]
            else:
                applied.transactions = transaction
                return applied
        return self._search(records, last, transaction + 1)

    @property
    def is_sweeping(self) -> bool:
        """Whether sessions have still to be measured by a changed policy."""
        return self._sweep is not None

    def sweep(self) -> int:
        """Measure some more sessions by a changed policy, when there are any to measure. Gives how many checkpoints that removed.

        Raises like `apply`.
        """
        sweep = self._sweep
        if sweep is None:
            return 0
        before = sweep.pruned
        with self._translated():
            if not sweep.step(self.connection(), self._heads, self._positions, self._topic):
                self._sweep = None
        return sweep.pruned - before

    def look_at_policies(self) -> None:
        """Begin a sweep when the policies have changed since the last batch. Raises `DatabaseUnavailable`."""
        if self._policies is None:
            return
        with self._translated():
            version = scalar(self.connection(), queries.load("materialize")["policies_version"])
            if version != self._policies.version:
                self._policies = load_policies(self.connection())
                self._sweep = Sweep(self._policies, self._signer)

    def skip_to(self, offsets: Mapping[int, int]) -> None:
        """Move positions over offsets at which the log holds no record for us (transaction markers).

        Raises `Fenced` when another consumer moved a position.
        """
        moves = [(partition, self._positions[partition].next_offset, offset) for partition, offset in offsets.items()]
        with self._translated():
            rows = self.connection().execute(
                queries.load("materialize")["skip_positions"], [list(column) for column in zip(*moves, strict=True)]
            )
            moved = {row[0] for row in rows}
        if lost := offsets.keys() - moved:
            self.release(lost)
            raise Fenced(frozenset(lost))
        for partition, _, offset in moves:
            self._positions[partition] = self._positions[partition]._replace(next_offset=offset)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()

    def _search(self, records: Sequence[LogRecord], refused: RefusedRowError, transactions: int) -> Applied:
        """Find refused records that Postgres did not point at: all in one transaction, a savepoint for each part."""
        with self._keeping_heads(records), self.connection().transaction() as transaction:
            # a constraint that waits for the commit would speak too late to say which part it is
            transaction.connection.execute("set constraints all immediate")
            applied = self._split(records, refused)
        applied.transactions = transactions
        return applied

    def _split(self, records: Sequence[LogRecord], refused: RefusedRowError) -> Applied:
        if len(records) == 1:
            try:
                return self._write_in_transaction([_refused(records[0], refused)])
            except RefusedRowError as again:
                where = f"{self._topic}/{records[0].partition}@{records[0].offset}"
                raise MilepostError(f"Postgres refused to quarantine the record {where}: {again.detail}") from again
        middle = len(records) // 2
        applied = self._part(records[:middle])
        applied += self._part(records[middle:])
        return applied

    def _part(self, records: Sequence[LogRecord]) -> Applied:
        try:
            return self._write_in_transaction(records)
        except RefusedRowError as refused:
            self._heads.forget(_keys(records))
            return self._split(records, refused)

    def _write(self, records: Sequence[LogRecord]) -> Applied:
        with self._keeping_heads(records):
            return self._write_in_transaction(records)

    @contextmanager
    def _keeping_heads(self, records: Sequence[LogRecord]) -> Iterator[None]:
        """What a transaction changes without committing is forgotten; errors of psycopg become ours."""
        try:
            with self._translated():
                yield
        except BaseException:
            self._heads.forget(_keys(records))
            raise

    def _write_in_transaction(self, records: Sequence[LogRecord]) -> Applied:
        connection = self.connection()
        policies = self._policies or load_policies(connection)
        heads = self._load_heads(connection, _keys(records), records, policies)
        known = load_known(connection, heads, records)
        plan = Plan(heads, known, policies, moves_of(records, self._positions))
        with refusals(), connection.transaction():
            # planned row by row, while Postgres takes in the rows before
            version = self._write_plan(connection, plan, plan.rows(records), heads)
            self.before_commit()
        self._committed(plan)
        self._heads.keep(heads.values())
        for partition, move in plan.moves.items():
            self._positions[partition] = move.stand
        self._policies = policies
        if version != policies.version:
            self._policies = load_policies(connection)
            self._sweep = Sweep(self._policies, self._signer)
        return _applied(plan)

    # what a rebuild does otherwise

    def _load_heads(
        self,
        connection: Connection,
        keys: set[SessionKey],
        records: Sequence[LogRecord],
        policies: Policies,  # noqa: ARG002 - a rebuild measures windows by them
    ) -> dict[SessionKey, Head]:
        return load_heads(connection, self._heads, keys, records, signer=self._signer)

    def _write_plan(
        self, connection: Connection, plan: Plan, rows: Iterable[HistoryRow], heads: dict[SessionKey, Head]
    ) -> int:
        return write_plan(connection, plan, rows, heads, self._topic, signer=self._signer)

    def _committed(self, plan: Plan) -> None:
        """The plan's transaction has ended well."""

    def _translated(self) -> _Translated:
        return _Translated(self)

    def fail(self, error: psycopg.Error) -> NoReturn:
        """Raise what an error of psycopg means. The connection is dropped: it may be broken, or read-only after a failover."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if isinstance(error, psycopg.errors.LockNotAvailable):
            end_stopped(self._database, self._positions)
        raise translate(error, self._database) from error


def _nothing_to_settle() -> None:
    """Where nothing has to be known before the COMMIT."""


class _Translated:
    """Errors of psycopg become ours."""

    def __init__(self, materializer: Materializer) -> None:
        self._materializer = materializer

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, psycopg.Error):
            self._materializer.fail(error)


def _keys(records: Sequence[LogRecord]) -> set[SessionKey]:
    return {(event.tenant_id, event.session_id) for record in records if (event := record.event) is not None}


def _refused(record: LogRecord, refused: RefusedRowError) -> LogRecord:
    return msgspec.structs.replace(
        record,
        event=None,
        fault=InvalidRecord(Reason.REFUSED_BY_POSTGRES, f"Postgres refused the row: {refused.detail}"),
    )


def _applied(plan: Plan) -> Applied:
    outcomes: dict[Outcome, int] = {}
    for move in plan.moves.values():
        for outcome, count in move.outcomes.items():
            outcomes[outcome] = outcomes.get(outcome, 0) + count
    return Applied(
        outcomes,
        len(plan.quarantine),
        len(plan.inserts),
        1,
        skipped=plan.created - len(plan.inserts),
        pruned=plan.pruned,
        state_bytes=sum(move.state_bytes for move in plan.moves.values()),
        reasons=Counter(record.fault.reason.value for record in plan.quarantine if record.fault is not None),
    )


def become_writer(connection: Connection) -> None:
    """Act with the writer's privileges alone, where the login may: it cannot update or delete history.

    Raises `WrongView` when row-level security lets the role write nothing.
    """
    if scalar(connection, "select true from pg_roles where rolname = 'milepost_writer'"):
        # no member, or one that may not take the role on (WITH SET FALSE, from Postgres 16 on)
        with suppress(psycopg.errors.InsufficientPrivilege):
            connection.execute("set role milepost_writer")
    for name, value in _WRITER_SETTINGS.items():
        connection.execute("select set_config(%s, %s, false)", [name, value])
    if not stage(connection):
        raise WrongView(f"expected a role that may write every tenant's rows, found another: {WRITER_NEEDS}")
