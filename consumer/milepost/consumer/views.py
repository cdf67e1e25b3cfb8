"""What a read gives: checkpoints, sessions and history, as the view holds them."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import msgspec

from milepost.consumer.rules import Outcome
from milepost.schemas import Kind, Position


class CheckpointInfo(msgspec.Struct, frozen=True, gc=False):
    """A live checkpoint without its state."""

    tenant_id: str
    session_id: str
    seq: int
    """The position of its event in the session, from 1, in log order."""
    checkpoint_id: str
    event_id: UUID
    parent_id: str | None
    run_id: UUID | None
    step: int | None
    next_node: str | None
    created_at: datetime
    """When the runtime took it, by its own clock; UTC."""
    framework_version: str | None
    schema_version: int | None
    pinned: bool
    size: int
    """Bytes of the state."""
    sha256: bytes
    """The digest of the state."""
    log_time: datetime
    """When the log took the record, by the broker's clock; UTC."""
    labels: dict[str, str]
    position: Position
    """Where the record stands in the log."""


class Checkpoint(CheckpointInfo, frozen=True, gc=False):
    """A live checkpoint with its state."""

    state: bytes
    """The published bytes; their digest was checked."""


class SessionInfo(msgspec.Struct, frozen=True, gc=False):
    """A session as its last event left it. One that was deleted stays, without checkpoints."""

    tenant_id: str
    session_id: str
    partition: int
    """The partition of the log that holds its events."""
    last_seq: int
    """How many events it had."""
    newest_seq: int | None
    """The seq of the newest live checkpoint, None when there is none."""
    newest_checkpoint_id: str | None
    first_event_time: datetime
    last_event_time: datetime
    """The last event's own time; UTC."""
    live_checkpoints: int
    live_bytes: int
    """What the states of the live checkpoints add up to."""
    deleted_at: datetime | None
    """The latest deletion's own time. Checkpoints may have come since."""
    deleted_seq: int | None
    chain: bytes
    """The digest over all of its events: docs/chain.md."""


class HistoryEntry(msgspec.Struct, frozen=True, gc=False):
    """An event of the log and what became of it. It stays when its checkpoint goes."""

    tenant_id: str
    session_id: str
    seq: int
    kind: Kind
    outcome: Outcome
    """Only what is `applied` changed what can be read."""
    event_id: UUID
    event_time: datetime
    """When the runtime made the event, by its own clock; UTC."""
    log_time: datetime
    """When the log took the record, by the broker's clock; UTC."""
    checkpoint_id: str | None
    parent_id: str | None
    run_id: UUID | None
    step: int | None
    next_node: str | None
    reason: str | None
    """Why a session was deleted."""
    framework_version: str | None
    schema_version: int | None
    pinned: bool
    size: int
    sha256: bytes | None
    """The digest of the state; None for a deletion."""
    source: str
    """The publisher, as a URI reference."""
    publisher_id: UUID | None
    publisher_seq: int | None
    traceparent: str | None
    tracestate: str | None
    chain: bytes
    """The digest over this event and all before it in the session: docs/chain.md."""
    labels: dict[str, str]
    extensions: dict[str, str]
    """Attributes of the CloudEvent that milepost does not know, without `ce_`."""
    position: Position
    """Where the record stands in the log."""
