"""What a batch does to the view, worked out before anything is written.

Events that a batch both brings and removes again, by retention or deletion, are never written; their history is.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from milepost.consumer.chain import extend, extend_partition
from milepost.consumer.heads import Head, SessionKey
from milepost.consumer.numbers import Numbered, numbered
from milepost.consumer.records import LogRecord
from milepost.consumer.retention import Live, Policies
from milepost.consumer.rules import Outcome, Seen, judge, may_repeat_checkpoint, may_repeat_event
from milepost.schemas import Envelope, Kind

EventKey = tuple[SessionKey, bytes]
CheckpointKey = tuple[SessionKey, str]
PublisherKey = tuple[bytes, int]


class HistoryRow(msgspec.Struct, gc=False):
    """An event and what became of it."""

    record: LogRecord
    event: Envelope
    seq: int
    outcome: Outcome
    chain: bytes


class Removal(msgspec.Struct, gc=False):
    """Checkpoints of a session to delete, by seq: those above `low` up to `high`. Pinned ones only when `all_of_them`."""

    low: int
    high: int
    all_of_them: bool


class Stand(NamedTuple):
    """Where a partition stands in the view."""

    next_offset: int
    digest: bytes
    epoch: int = 0
    """Moves with each change of the partition's sessions, so that what others remember of them is void."""


class PartitionMove(msgspec.Struct):
    """How a batch moves a partition: where it must stand before, where it stands after, and what is added to its totals."""

    expected: int
    next_offset: int
    digest: bytes
    epoch: int = 0
    log_time: int | None = None
    events: int = 0
    quarantined: int = 0
    state_bytes: int = 0
    outcomes: dict[Outcome, int] = msgspec.field(default_factory=dict)

    @property
    def stand(self) -> Stand:
        """Where the partition stands once it has moved."""
        return Stand(self.next_offset, self.digest, self.epoch + 1)


class PublisherMove(msgspec.Struct):
    """What a batch brought from one publisher instance in one partition."""

    source: str
    events: int
    highest_seq: int
    first_seen: int
    last_seen: int


class Known(msgspec.Struct):
    """What is known of the ids that a batch may repeat: first what the database has, then the batch itself."""

    events: dict[EventKey, Seen]
    checkpoints: dict[CheckpointKey, Seen]
    numbers: dict[PublisherKey, int] = msgspec.field(default_factory=dict)
    """The highest number seen of each publisher in each partition."""


class Plan:
    """The rows of a batch. Feed it records in log order with `add`; the heads given to it are changed."""

    def __init__(
        self, heads: Mapping[SessionKey, Head], known: Known, policies: Policies, moves: dict[int, PartitionMove]
    ) -> None:
        self._heads = heads
        self._known = known
        self._policies = policies
        self.history: list[HistoryRow] = []
        self.inserts: dict[tuple[SessionKey, int], HistoryRow] = {}
        self.removals: dict[SessionKey, Removal] = {}
        self.quarantine: list[LogRecord] = []
        self.publishers: dict[PublisherKey, PublisherMove] = {}
        self.moves = moves
        self.created = 0
        """Checkpoints that the batch brought, those it does not write counted too."""
        self.pruned = 0
        self._remembered = 0
        """How many of the events `known` has."""
        self._first_seq: dict[SessionKey, int] = {}
        """Of each session's events in the batch, the first since the latest deletion."""

    def add(self, record: LogRecord) -> None:
        """Take the next record."""
        move = self.moves[record.partition]
        if record.event is None:
            self.quarantine.append(record)
            move.quarantined += 1
        else:
            self._add_event(record, record.event, move)
        if (found := numbered(record)) is not None:
            self._count_publisher(record, found)
        move.events += 1
        move.next_offset = record.offset + 1
        move.log_time = record.log_time
        move.digest = extend_partition(move.digest, record)

    def rows(self, records: Iterable[LogRecord]) -> Iterator[HistoryRow]:
        """Take records one by one as they are asked for: the history row of each that is an event."""
        for record in records:
            self.add(record)
            if record.event is not None:
                yield self.history[-1]

    def remember(self) -> None:
        """Let `known` have the ids of the events that were added: it is asked for those of the batch as well."""
        known = self._known
        for row in self.history[self._remembered :]:
            event = row.event
            key, seen = (event.tenant_id, event.session_id), Seen.of(event, row.seq)
            known.events.setdefault((key, event.event_id), seen)
            if row.outcome is Outcome.APPLIED and event.checkpoint_id is not None:
                known.checkpoints[key, event.checkpoint_id] = seen
        self._remembered = len(self.history)

    def _add_event(self, record: LogRecord, event: Envelope, move: PartitionMove) -> None:
        key = (event.tenant_id, event.session_id)
        head = self._heads[key]
        seq = head.last_seq + 1
        self._first_seq.setdefault(key, seq)
        outcome = self._judge(head, key, event)
        head.chain = extend(head.chain, event, seq, outcome)
        row = HistoryRow(record, event, seq, outcome, head.chain)
        self.history.append(row)
        if not head.last_seq:
            head.first_event_time = event.event_time
        head.last_seq = seq
        head.last_event_time = event.event_time
        size = event.size
        if outcome is Outcome.APPLIED:
            if event.kind is Kind.CHECKPOINT_CREATED:
                self._create(head, key, row, size)
            else:
                self._delete(head, key, row)
        move.outcomes[outcome] = move.outcomes.get(outcome, 0) + 1
        move.state_bytes += size

    def _judge(self, head: Head, key: SessionKey, event: Envelope) -> Outcome:
        """Judge the event by what came before it, then let its session's head know its ids."""
        same_event = same_checkpoint = None
        if may_repeat_event(head, event):
            self.remember()
            same_event = self._known.events.get((key, event.event_id))
        else:
            head.max_event_id = event.event_id
        checkpoint_id = event.checkpoint_id
        if checkpoint_id is not None and may_repeat_checkpoint(head, event):
            self.remember()
            same_checkpoint = self._known.checkpoints.get((key, checkpoint_id))
        outcome = judge(head, event, same_event, same_checkpoint)
        if outcome is Outcome.APPLIED and checkpoint_id is not None and checkpoint_id > head.max_checkpoint_id:
            head.max_checkpoint_id = checkpoint_id
        return outcome

    def _create(self, head: Head, key: SessionKey, row: HistoryRow, size: int) -> None:
        event = row.event
        self.inserts[key, row.seq] = row
        self.created += 1
        head.newest_seq, head.newest_checkpoint_id = row.seq, event.checkpoint_id
        head.live_checkpoints += 1
        head.live_bytes += size
        head.window.append(Live(row.seq, size, row.record.log_time, event.pinned))
        self.prune(head, key)

    def prune(self, head: Head, key: SessionKey, limit: int = sys.maxsize) -> None:
        """Remove what the session's policy does not keep, the oldest of it when there is more than `limit`."""
        for live in self._policies.of(*key).prune(head.window, limit):
            self.pruned += 1
            head.pruned_seq = live.seq
            head.live_checkpoints -= 1
            head.live_bytes -= live.size
            if self.inserts.pop((key, live.seq), None) is None:
                self._remove(key, live.seq)

    def _remove(self, key: SessionKey, seq: int) -> None:
        removal = self.removals.get(key)
        if removal is None:
            self.removals[key] = Removal(seq - 1, seq, all_of_them=False)
        else:
            removal.high = max(removal.high, seq)

    def _delete(self, head: Head, key: SessionKey, row: HistoryRow) -> None:
        if head.live_checkpoints:
            for seq in range(self._first_seq[key], row.seq):
                self.inserts.pop((key, seq), None)
            low = _below(head)
            if (removal := self.removals.get(key)) is not None:
                low = min(low, removal.low)
            self.removals[key] = Removal(low, row.seq, all_of_them=True)
        self._first_seq[key] = row.seq + 1
        head.window.clear()
        head.newest_seq = head.newest_checkpoint_id = None
        head.live_checkpoints = head.live_bytes = head.pruned_seq = 0
        head.deleted_at, head.deleted_seq = row.event.event_time, row.seq

    def _count_publisher(self, record: LogRecord, found: Numbered) -> None:
        """Count an event once: what comes again, whatever became of it, has no higher number than was seen before."""
        key = (found.publisher_id, record.partition)
        if found.seq <= self._known.numbers.get(key, 0):
            return
        self._known.numbers[key] = found.seq
        move = self.publishers.get(key)
        if move is None:
            self.publishers[key] = PublisherMove(found.source, 1, found.seq, record.log_time, record.log_time)
        else:
            move.events += 1
            move.highest_seq = found.seq
            move.last_seen = record.log_time


def _below(head: Head) -> int:
    """A seq below all live ones, and as close to them as is known: what was removed before may still lie in the table, dead,
    and would be walked over.
    """
    if len(head.window) == head.live_checkpoints:
        return next(iter(head.window)).seq - 1
    # pinned ones have left the window
    return head.deleted_seq or 0


def moves_of(records: Sequence[LogRecord], positions: Mapping[int, Stand]) -> dict[int, PartitionMove]:
    """The moves of a batch before its first record, from where each partition stands."""
    partitions = {record.partition for record in records}
    return {partition: still(stand) for partition, stand in positions.items() if partition in partitions}


def still(stand: Stand) -> PartitionMove:
    """A move that goes nowhere yet."""
    return PartitionMove(stand.next_offset, *stand)
