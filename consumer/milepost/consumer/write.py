"""The statements of one batch's transaction, in their order."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import psycopg
from psycopg import sql

from milepost.consumer import queries, staging
from milepost.consumer.database import Connection, is_record_at_fault, scalar
from milepost.consumer.heads import Head, SessionKey
from milepost.consumer.integrity.signer import Signer
from milepost.consumer.plan import HistoryRow, PartitionMove, Plan
from milepost.consumer.quarantine import quarantine_values
from milepost.consumer.records import LogRecord
from milepost.consumer.rows import CHECKPOINT_COLUMNS, HISTORY_COLUMNS, MAC_COLUMNS, checkpoint_values, history_values
from milepost.consumer.rules import Outcome
from milepost.schemas import Fenced

_LINE: Final = re.compile(r"^COPY \w+, line (\d+)", re.MULTILINE)


class RefusedRowError(Exception):
    """Postgres refused what a row holds. `record` is the one it pointed at, None when it did not."""

    def __init__(self, record: LogRecord | None, detail: str) -> None:
        super().__init__(record, detail)
        self.record = record
        self.detail = detail


@contextmanager
def refusals() -> Iterator[None]:
    """Errors of psycopg that are about a row become `RefusedRowError`."""
    try:
        yield
    except psycopg.Error as error:
        if is_record_at_fault(error):
            raise RefusedRowError(None, _detail(error)) from error
        raise


def write_plan(
    connection: Connection,
    plan: Plan,
    rows: Iterable[HistoryRow],
    heads: Mapping[SessionKey, Head],
    topic: str,
    *,
    states: bool = True,
    signer: Signer | None = None,
) -> int:
    """Write a plan inside the open transaction, without its states if told so. Returns the policies' version as it is now.

    `rows`: those of its history; they may be planned while they are asked for (`Plan.rows`), and all else is read after them.
    Rows and heads are signed when there is a signer.

    Raises `Fenced` when a position is not where the plan expects it, `RefusedRowError` when a record is at fault.
    """
    with refusals():
        _hold_positions(connection, plan.moves)
        write_rows(connection, plan, rows, heads, topic, states=states, signer=signer)
        version = _move_positions(connection, plan.moves)
        _quarantine(connection, plan, topic)
    return version


def write_rows(
    connection: Connection,
    plan: Plan,
    rows: Iterable[HistoryRow],
    heads: Mapping[SessionKey, Head],
    topic: str,
    *,
    states: bool = True,
    signer: Signer | None = None,
) -> None:
    """Write what a plan says of sessions and publishers, `rows` as for `write_plan`.

    Raises `RefusedRowError` when a record is at fault.
    """
    with refusals():
        if rows:
            _copy(connection, "history", HISTORY_COLUMNS, rows, lambda row: history_values(row, topic))
        if states:
            _remove(connection, plan)
            copy_checkpoints(connection, plan.inserts.values(), signer)
        _upsert_sessions(connection, list(heads.values()), signer)
        _upsert_publishers(connection, plan)


def copy_checkpoints(connection: Connection, rows: Collection[HistoryRow], signer: Signer | None = None) -> None:
    """Write live checkpoints. Raises `RefusedRowError` when a row is at fault."""
    if not rows:
        return
    if signer is None:
        _copy(connection, "checkpoints", CHECKPOINT_COLUMNS, rows, checkpoint_values)
        return
    sign = signer.sign_row
    _copy(
        connection,
        "checkpoints",
        CHECKPOINT_COLUMNS | MAC_COLUMNS,
        rows,
        lambda row: (*checkpoint_values(row), *sign(row)),
    )


def _hold_positions(connection: Connection, moves: Mapping[int, PartitionMove]) -> None:
    """Lock the positions where the plan expects them, before anything is written."""
    columns = _columns([(partition, move.expected, move.epoch) for partition, move in moves.items()])
    held = connection.execute(queries.load("materialize")["hold_positions"], columns).fetchall()
    if lost := moves.keys() - {partition for (partition,) in held}:
        raise Fenced(frozenset(lost))


def _move_positions(connection: Connection, moves: Mapping[int, PartitionMove]) -> int:
    """Move the positions that are held. Returns the policies' version."""
    columns = _columns(
        [
            (
                partition,
                move.next_offset,
                move.log_time,
                move.events,
                move.outcomes.get(Outcome.APPLIED, 0),
                move.outcomes.get(Outcome.DUPLICATE, 0),
                move.outcomes.get(Outcome.STALE, 0),
                move.outcomes.get(Outcome.CONFLICT, 0),
                move.quarantined,
                move.state_bytes,
                move.digest,
            )
            for partition, move in moves.items()
        ]
    )
    return int(str(scalar(connection, queries.load("materialize")["move_positions"], *columns)))


def _remove(connection: Connection, plan: Plan) -> None:
    if plan.removals:
        rows = [
            (tenant_id, session_id, removal.low, removal.high, removal.all_of_them)
            for (tenant_id, session_id), removal in plan.removals.items()
        ]
        connection.execute(queries.load("materialize")["remove_checkpoints"], _columns(rows))


def _copy(
    connection: Connection,
    table: str,
    columns: Mapping[str, str],
    rows: Iterable[HistoryRow],
    values: Callable[[HistoryRow], tuple[object, ...]],
) -> None:
    sent: list[HistoryRow] = []
    statement = sql.SQL("copy {} ({}) from stdin (format binary)").format(
        staging.target(connection, table), sql.SQL(", ").join(sql.Identifier(name.strip('"')) for name in columns)
    )
    try:
        with connection.cursor() as cursor, cursor.copy(statement) as copy:
            copy.set_types(list(columns.values()))
            for row in rows:
                sent.append(row)
                copy.write_row(values(row))
        staging.move(connection, table, columns)
    except psycopg.Error as error:
        if not is_record_at_fault(error):
            raise
        match = _LINE.search(error.diag.context or "")
        line = int(match[1]) if match is not None else 0
        record = sent[line - 1].record if 1 <= line <= len(sent) else None
        raise RefusedRowError(record, _detail(error)) from error


def _upsert_sessions(connection: Connection, heads: Sequence[Head], signer: Signer | None) -> None:
    if heads:
        sign = signer.sign_head if signer is not None else _unsigned
        rows = [
            (
                head.tenant_id,
                head.session_id,
                head.partition,
                head.last_seq,
                head.newest_seq,
                head.newest_checkpoint_id,
                head.first_event_time,
                head.last_event_time,
                head.live_checkpoints,
                head.live_bytes,
                head.deleted_at,
                head.deleted_seq,
                head.max_event_id,
                head.max_checkpoint_id,
                head.chain,
                head.pruned_seq,
                *sign(head),
            )
            for head in heads
        ]
        connection.execute(queries.load("materialize")["upsert_sessions"], _columns(rows))


def _unsigned(_head: Head) -> tuple[None, None]:
    return None, None


def _upsert_publishers(connection: Connection, plan: Plan) -> None:
    if plan.publishers:
        rows = [
            (publisher_id, partition, move.source, move.events, move.highest_seq, move.first_seen, move.last_seen)
            for (publisher_id, partition), move in plan.publishers.items()
        ]
        connection.execute(queries.load("materialize")["upsert_publishers"], _columns(rows))


def _quarantine(connection: Connection, plan: Plan, topic: str) -> None:
    if plan.quarantine:
        with connection.cursor() as cursor:
            cursor.executemany(
                queries.load("materialize")["quarantine"],
                [quarantine_values(record, topic) for record in plan.quarantine],
            )


def _columns(rows: Iterable[tuple[object, ...]]) -> list[list[object]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _detail(error: psycopg.Error) -> str:
    return error.diag.message_primary or type(error).__name__
