"""The rules: what becomes of an event, given its session's head. Pure: no clock, no database, no Kafka.

| event | outcome |
|---|---|
| its id was seen in the session, same content | duplicate |
| its id was seen in the session, other content | conflict |
| made before the session's latest deletion | stale |
| checkpoint id taken since the latest deletion, same bytes | duplicate |
| checkpoint id taken since the latest deletion, other bytes | conflict |
| anything else | applied |

The first that fits holds. Only what is applied changes what can be read; every event gets the session's next seq.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from milepost.consumer.heads import Head
from milepost.schemas import Envelope


class Outcome(StrEnum):
    """What became of an event."""

    APPLIED = "applied"
    DUPLICATE = "duplicate"
    STALE = "stale"
    CONFLICT = "conflict"


class Seen(msgspec.Struct, frozen=True, gc=False):
    """What an earlier event of the session was."""

    seq: int
    kind: str
    checkpoint_id: str | None
    sha256: bytes | None

    @classmethod
    def of(cls, event: Envelope, seq: int) -> Seen:
        """What is remembered of an event."""
        return cls(seq, event.kind, event.checkpoint_id, event.sha256)

    def is_same(self, event: Envelope) -> bool:
        """Whether the other event says the same."""
        return self.kind == event.kind and self.checkpoint_id == event.checkpoint_id and self.sha256 == event.sha256


def may_repeat_event(head: Head, event: Envelope) -> bool:
    """Whether the event's id can have been seen: one above all that were seen cannot."""
    return event.event_id <= head.max_event_id


def may_repeat_checkpoint(head: Head, event: Envelope) -> bool:
    """Whether the checkpoint's id can be taken."""
    return event.checkpoint_id is not None and event.checkpoint_id <= head.max_checkpoint_id


def judge(head: Head, event: Envelope, same_event: Seen | None, same_checkpoint: Seen | None) -> Outcome:
    """What becomes of an event.

    `same_event` is the session's first event with the same id, `same_checkpoint` the latest that was applied with the same
    checkpoint id, each None when there is none.
    """
    if same_event is not None:
        return Outcome.DUPLICATE if same_event.is_same(event) else Outcome.CONFLICT
    if head.deleted_at is not None and event.event_time < head.deleted_at:
        return Outcome.STALE
    if same_checkpoint is None or same_checkpoint.seq <= (head.deleted_seq or 0):
        return Outcome.APPLIED
    return Outcome.DUPLICATE if same_checkpoint.sha256 == event.sha256 else Outcome.CONFLICT
