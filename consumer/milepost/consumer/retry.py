"""Retrying records of the quarantine: decoded once more by this version's rules, and applied where order allows.

A record is applied late only when the view is then what a replay from zero would give: nothing of its session may stand
behind it, in the view or, valid by now, in the quarantine before it. Counts of publishers and partitions have no order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final

import msgspec

from milepost.consumer import queries
from milepost.consumer.chain import START
from milepost.consumer.database import Connection, scalar
from milepost.consumer.heads import HeadCache
from milepost.consumer.integrity.keys import Keyring
from milepost.consumer.integrity.signer import Signer, require_same
from milepost.consumer.lookup import load_heads, load_known, load_policies
from milepost.consumer.numbers import number_in_headers, numbered
from milepost.consumer.operators import introduce
from milepost.consumer.plan import PartitionMove, Plan
from milepost.consumer.quarantine import find, operator, storable
from milepost.consumer.records import LogRecord
from milepost.consumer.rules import Outcome
from milepost.consumer.write import RefusedRowError, refusals, write_rows
from milepost.schemas import Envelope, InvalidRecord, Position, Reason


class Retried(StrEnum):
    """What became of a retry."""

    APPLIED = "applied"
    """The record is in the view now, where a replay would put it."""
    ALREADY = "already"
    """It was retried before."""
    NOT_FOUND = "not_found"
    """The quarantine holds no record of this position."""
    INVALID = "invalid"
    """It is still no valid event, or Postgres still refuses it."""
    TOO_LATE = "too_late"
    """It is valid now, but later events of its session were applied; a replay into an empty database will hold it."""
    NOT_YET = "not_yet"
    """It is valid now, but so is an earlier record of its session in the quarantine: retry that one first."""


DONE: Final = frozenset({Retried.APPLIED, Retried.ALREADY})


class RetryResult(msgspec.Struct, frozen=True):
    """What became of one record, and why."""

    position: Position
    result: Retried
    detail: str


class Retry:
    """Retries records, each in a transaction of its own that holds the record's partition: no consumer writes meanwhile."""

    def __init__(self, connection: Connection, keys: Keyring | None = None) -> None:
        self._connection = connection
        self._keys = keys
        require_same(connection, keys is not None)
        self._statements = queries.load("quarantine")
        self._invalid: set[tuple[int, int]] = set()
        self._partitions = int(str(scalar(connection, self._statements["partitions"])))

    def run(self, positions: Iterable[Position]) -> Iterator[RetryResult]:
        """Retry records in log order, each once; what became of each is there when its transaction has ended."""
        for position in sorted(set(positions), key=lambda found: (found.partition, found.offset)):
            with self._connection.transaction():
                # a constraint that waits for the commit would speak too late
                self._connection.execute("set constraints all immediate")
                introduce(self._connection)
                result = self._retry(position)
            yield result

    def _retry(self, position: Position) -> RetryResult:
        self._connection.execute(self._statements["lock_partition"], [position.partition])
        found = find(self._connection, position.topic or None, position.partition, position.offset)
        if found is None:
            return RetryResult(position, Retried.NOT_FOUND, "the quarantine holds no such record")
        position = found.entry.position
        if found.entry.status == "retried":
            return RetryResult(position, Retried.ALREADY, f"retried before: {found.entry.note}")
        record = found.decoded(self._partitions)
        if record.event is None:
            return self._still_refused(position, record.fault)
        if (obstacle := self._obstacle(record, record.event)) is not None:
            return self._noted(RetryResult(position, *obstacle))
        try:
            with refusals(), self._connection.transaction():
                outcome = self._apply(record, record.event, position.topic)
        except RefusedRowError as refused:
            fault = InvalidRecord(Reason.REFUSED_BY_POSTGRES, f"Postgres refused the row: {refused.detail}")
            return self._still_refused(position, fault)
        return RetryResult(position, Retried.APPLIED, f"outcome: {outcome}")

    def _still_refused(self, position: Position, fault: InvalidRecord | None) -> RetryResult:
        """What a replay would write now is written: the reason may be another one in this version."""
        reason, detail = (fault.reason.value, storable(fault.detail)) if fault is not None else ("", "")
        self._connection.execute(
            self._statements["still_refused"],
            [reason, detail, position.partition, position.offset],
        )
        self._invalid.add((position.partition, position.offset))
        return self._noted(RetryResult(position, Retried.INVALID, f"{reason}: {detail}"))

    def _noted(self, result: RetryResult) -> RetryResult:
        """Record in the row who tried, when, and why nothing came of it. A dismissed record keeps why it was dismissed."""
        note = storable(f"{result.result}: {result.detail}")
        at = result.position
        self._connection.execute(self._statements["tried"], [note, operator(self._connection), at.partition, at.offset])
        return result

    def _obstacle(self, record: LogRecord, event: Envelope) -> tuple[Retried, str] | None:
        """Why a replay would not give what applying the record now gives."""
        last = self._connection.execute(self._statements["last_event"], [event.tenant_id, event.session_id]).fetchone()
        if last is not None and (last[0] != record.partition or last[1] > record.offset):
            return Retried.TOO_LATE, (
                f"the event at {last[0]}@{last[1]} of the same session was applied already; "
                "a replay into an empty database will hold both"
            )
        for (offset,) in self._connection.execute(
            self._statements["earlier"], [record.partition, record.offset, record.key]
        ).fetchall():
            if self._is_valid(record.partition, offset):
                return Retried.NOT_YET, (
                    f"the record at {record.partition}@{offset} of the same session stands before it and is valid, too: "
                    "retry that one first; where that is too late, a replay into an empty database will hold both"
                )
        return None

    def _is_valid(self, partition: int, offset: int) -> bool:
        if (partition, offset) in self._invalid:
            return False
        found = find(self._connection, None, partition, offset)
        if found is not None and found.decoded(self._partitions).event is not None:
            # what Postgres refused once it would refuse in a replay
            return found.entry.reason != Reason.REFUSED_BY_POSTGRES
        self._invalid.add((partition, offset))
        return False

    def _apply(self, record: LogRecord, event: Envelope, topic: str) -> Outcome:
        connection = self._connection
        signer = Signer(self._keys, topic) if self._keys is not None else None
        heads = load_heads(connection, HeadCache(), {(event.tenant_id, event.session_id)}, [record], signer=signer)
        known = load_known(connection, heads, [record])
        if number_in_headers(record) is None and (number := numbered(record)) is not None:
            # only now it can be read, so it was not counted when it came
            known.numbers[number.publisher_id, record.partition] = number.seq - 1
        move = PartitionMove(record.offset, record.offset, START)
        plan = Plan(heads, known, load_policies(connection), {record.partition: move})
        write_rows(connection, plan, plan.rows([record]), heads, topic, signer=signer)
        (outcome,) = move.outcomes
        counts = [move.outcomes.get(each, 0) for each in Outcome]
        connection.execute(self._statements["move_totals"], [*counts, move.state_bytes, record.partition])
        connection.execute(
            self._statements["retried"],
            [f"outcome: {outcome}", operator(connection), record.partition, record.offset],
        )
        return outcome
