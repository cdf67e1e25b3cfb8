"""From facts whose MACs fit to what a read gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from milepost.consumer.integrity.facts import CheckpointFacts, HeadFacts
from milepost.consumer.views import Checkpoint, CheckpointInfo, SessionInfo
from milepost.schemas import Position
from milepost.schemas.codec.attributes import to_datetime

# by position, which mypy cannot count
_new_checkpoint: Final[Callable[..., Checkpoint]] = Checkpoint


def _uuid(value: bytes | None) -> UUID | None:
    return UUID(bytes=value) if value is not None else None


def _values(facts: CheckpointFacts) -> tuple[Any, ...]:
    return (
        facts.tenant_id,
        facts.session_id,
        facts.seq,
        facts.checkpoint_id,
        UUID(bytes=facts.event_id),
        facts.parent_id,
        _uuid(facts.run_id),
        facts.step,
        facts.next_node,
        to_datetime(facts.created_at),
        facts.framework_version,
        facts.schema_version,
        facts.pinned,
        facts.size,
        facts.sha256,
        to_datetime(facts.log_time),
        dict(facts.labels or ()),
        Position(facts.topic or "", facts.partition, facts.offset),
    )


def info_of(facts: CheckpointFacts) -> CheckpointInfo:
    """A live checkpoint without its state."""
    return CheckpointInfo(*_values(facts))


def checkpoint_of(facts: CheckpointFacts, state: bytes) -> Checkpoint:
    """A live checkpoint with its state."""
    return _new_checkpoint(*_values(facts), state)


def session_of(head: HeadFacts) -> SessionInfo:
    """A session."""
    return SessionInfo(
        head.tenant_id,
        head.session_id,
        head.partition,
        head.last_seq,
        head.newest_seq,
        head.newest_checkpoint_id,
        to_datetime(head.first_event_time),
        to_datetime(head.last_event_time),
        head.live_checkpoints,
        head.live_bytes,
        to_datetime(head.deleted_at) if head.deleted_at is not None else None,
        head.deleted_seq,
        head.chain,
    )
