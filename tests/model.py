"""A second opinion: what the view must hold, said as plainly as can be and apart from the product's own code.

It keeps every event of a session in a list and works out everything from the list, without heads, windows or batches.
It shares only the codec with the product.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from milepost.consumer.records import LogRecord
from milepost.schemas import Envelope, Kind


@dataclass
class Entry:
    """An event with what became of it."""

    record: LogRecord
    event: Envelope
    seq: int
    outcome: str


@dataclass
class Expected:
    """What the view must hold."""

    history: dict[tuple[str, str], list[Entry]] = field(default_factory=lambda: defaultdict(list))
    quarantine: list[tuple[int, int, str]] = field(default_factory=list)

    def live(self, newest: Callable[[str, str], int]) -> dict[tuple[str, str], list[Entry]]:
        """The live checkpoints of each session, oldest first."""
        return {key: surviving(entries, newest(*key)) for key, entries in self.history.items()}


def model(records: Iterable[LogRecord]) -> Expected:
    """What becomes of each record of a log."""
    expected = Expected()
    for record in records:
        if record.event is None:
            assert record.fault is not None
            expected.quarantine.append((record.partition, record.offset, record.fault.reason.value))
        else:
            entries = expected.history[record.event.tenant_id, record.event.session_id]
            entries.append(Entry(record, record.event, len(entries) + 1, outcome(entries, record.event)))
    return expected


def outcome(before: list[Entry], event: Envelope) -> str:
    """What becomes of an event after those before it in its session."""
    for entry in before:
        if entry.event.event_id == event.event_id:
            first = entry.event
            same = (first.kind, first.checkpoint_id, first.sha256) == (event.kind, event.checkpoint_id, event.sha256)
            return "duplicate" if same else "conflict"
    applied = [entry for entry in before if entry.outcome == "applied"]
    deletions = [entry for entry in applied if entry.event.kind is Kind.SESSION_DELETED]
    if deletions and event.event_time < deletions[-1].event.event_time:
        return "stale"
    since = deletions[-1].seq if deletions else 0
    for entry in applied:
        if entry.seq > since and event.checkpoint_id is not None and entry.event.checkpoint_id == event.checkpoint_id:
            return "duplicate" if entry.event.sha256 == event.sha256 else "conflict"
    return "applied"


def surviving(entries: list[Entry], newest: int) -> list[Entry]:
    """The newest N applied since the last deletion, and those pinned."""
    applied = [entry for entry in entries if entry.outcome == "applied"]
    last_deletion = max((entry.seq for entry in applied if entry.event.kind is Kind.SESSION_DELETED), default=0)
    created = [entry for entry in applied if entry.seq > last_deletion]
    return [entry for entry in created if entry.event.pinned or entry in created[-newest:]]
