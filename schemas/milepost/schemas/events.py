"""The nouns: what a runtime says happened, and where the log put it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, Self
from uuid import UUID

import msgspec

from milepost.schemas.ids import new_checkpoint_id, new_event_id


def _now() -> datetime:
    return datetime.now(UTC)


class CheckpointCreated(msgspec.Struct, frozen=True, kw_only=True):
    """A runtime took a snapshot of a session.

    Making one checks nothing; `publish` refuses an event that breaks the rules with `InvalidEvent`.
    """

    tenant_id: str
    """Who owns the data: 1 to 128 of `A-Z a-z 0-9 . _ -`."""
    session_id: str
    """The conversation or workflow session: 1 to 512 printable characters, no `/` at the start."""
    state: bytes
    """The snapshot: a JSON text (RFC 8259) in UTF-8, at most 16 MiB. Its bytes are never changed."""
    checkpoint_id: str = msgspec.field(default_factory=new_checkpoint_id)
    """1 to 512 printable characters, unique in the session; a new UUIDv7 in hex when left out."""
    parent_id: str | None = None
    """The checkpoint this one follows."""
    run_id: UUID | None = None
    """The execution inside the session; resuming opens a new one."""
    step: int | None = None
    """The super-step in the run, 0 or more."""
    next_node: str | None = None
    """The node to run next."""
    framework_version: str | None = None
    """The version of the framework that wrote the state."""
    schema_version: int | None = None
    """The generation of the state's schema, 0 or more."""
    pinned: bool = False
    """Whether retention leaves this checkpoint alone."""
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    """For filtering: workflow, namespace, kind …"""
    created_at: datetime = msgspec.field(default_factory=_now)
    """When the runtime took it; aware, kept in microseconds."""
    event_id: UUID = msgspec.field(default_factory=new_event_id)
    """Names this event: the same id arriving again is a duplicate and changes nothing."""


class SessionDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """A session's states are to go. Its history stays."""

    tenant_id: str
    session_id: str
    reason: str | None = None
    """Why, for the history."""
    deleted_at: datetime = msgspec.field(default_factory=_now)
    """Events made before this moment that arrive later are recorded as stale."""
    event_id: UUID = msgspec.field(default_factory=new_event_id)


Event = CheckpointCreated | SessionDeleted

_POSITION: Final = re.compile(r"(?P<topic>[A-Za-z0-9._-]{1,249})/(?P<partition>[0-9]{1,10})@(?P<offset>[0-9]{1,19})")


class Position(msgspec.Struct, frozen=True, order=True):
    """Where a record stands in the log. Printed and parsed as `milepost.events/3@1234`."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}@{self.offset}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what `str` wrote. Raises `ValueError` for anything else."""
        if (match := _POSITION.fullmatch(text)) is None:
            raise ValueError(f"expected a position such as milepost.events/3@1234, found {text!r}")
        return cls(match["topic"], int(match["partition"]), int(match["offset"]))
