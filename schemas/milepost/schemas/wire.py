"""What stands on the wire: topic, header names and limits, as in the Kafka binding of CloudEvents 1.0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Final

import msgspec

DEFAULT_TOPIC: Final = "milepost.events"
DEFAULT_PARTITIONS: Final = 12

MAX_RECORD_BYTES: Final = 17 * 1024 * 1024
"""A state may have 16 MiB; the headers have the rest."""

TOPIC_CONFIG: Final[Mapping[str, str]] = MappingProxyType(
    {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "max.message.bytes": str(MAX_RECORD_BYTES),
        "message.timestamp.type": "LogAppendTime",
    }
)
"""The settings that the promises rest on: the log is kept for ever, whole, and ordered by its own clock."""

Headers = Sequence[tuple[str, bytes | None]]
"""Kafka record headers: ordered, and a name may stand more than once."""


class Kind(StrEnum):
    """What an event says happened."""

    CHECKPOINT_CREATED = "checkpoint-created"
    SESSION_DELETED = "session-deleted"


TYPES: Final[Mapping[bytes, Kind]] = MappingProxyType(
    {f"milepost.{kind}.v1".encode(): kind for kind in Kind},
)

# limits of the attributes that the design leaves open, in characters
MAX_TEXT_CHARACTERS: Final = 4_096
MAX_LABELS_BYTES: Final = 65_536
MAX_INTEGER: Final = 2**63 - 1

KNOWN_ATTRIBUTES: Final = frozenset(
    {
        "ce_specversion",
        "ce_type",
        "ce_id",
        "ce_source",
        "ce_time",
        "ce_partitionkey",
        "ce_tenantid",
        "ce_sessionid",
        "ce_checkpointid",
        "ce_parentid",
        "ce_runid",
        "ce_step",
        "ce_nextnode",
        "ce_reason",
        "ce_frameworkversion",
        "ce_schemaversion",
        "ce_statesha256",
        "ce_pinned",
        "ce_labels",
        "ce_publisherid",
        "ce_publisherseq",
    }
)


class EncodedEvent(msgspec.Struct, frozen=True, gc=False):
    """An event as a Kafka record: what `produce` takes."""

    key: bytes
    value: bytes | None
    headers: list[tuple[str, str | bytes | None]]


class Envelope(msgspec.Struct, frozen=True, gc=False):
    """An event as the log carries it, checked, each part in the form that the view stores."""

    kind: Kind
    tenant_id: str
    session_id: str
    event_id: bytes
    """A UUID's 16 bytes."""
    event_time: int
    """`created_at` or `deleted_at`, microseconds since 1970 UTC."""
    source: str
    checkpoint_id: str | None = None
    parent_id: str | None = None
    run_id: bytes | None = None
    """A UUID's 16 bytes."""
    step: int | None = None
    next_node: str | None = None
    reason: str | None = None
    framework_version: str | None = None
    schema_version: int | None = None
    pinned: bool = False
    labels: bytes | None = None
    """A JSON object of strings, as published."""
    publisher_id: bytes | None = None
    """A UUID's 16 bytes."""
    publisher_seq: int | None = None
    traceparent: str | None = None
    tracestate: str | None = None
    extensions: bytes | None = None
    """Unknown extension attributes, as a JSON object of strings in the order of the headers."""
    state: bytes | None = None
    """The published bytes; None for a deletion."""
    sha256: bytes | None = None
    """The digest of `state`, computed here; None for a deletion."""

    @property
    def size(self) -> int:
        """The bytes of the state."""
        return len(self.state) if self.state is not None else 0
