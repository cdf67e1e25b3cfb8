"""What an export says: the manifest, and a line of history for each event, with every column that hangs on the log alone."""

from __future__ import annotations

from datetime import UTC
from typing import Final
from uuid import UUID

import msgspec

from milepost.consumer.audit.rows import Entry, StoredEvent
from milepost.consumer.rules import Outcome
from milepost.schemas import InvalidRecord, Kind
from milepost.schemas.codec.attributes import digest, microseconds, to_datetime

FORMAT: Final = "milepost-export/1"
MAX_LINE_BYTES: Final = 4 * 1024 * 1024
"""Labels and unknown attributes have 320 KiB at most, which JSON may spell in six bytes for one."""
MAX_MANIFEST_BYTES: Final = 16 * 1024 * 1024


class ExportedRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A row of history. Labels and extensions are the JSON texts themselves, since the chain goes over them."""

    tenant_id: str
    session_id: str
    seq: int
    kind: Kind
    outcome: Outcome
    event_id: UUID
    event_time: str
    log_time: str
    checkpoint_id: str | None
    parent_id: str | None
    run_id: UUID | None
    step: int | None
    next_node: str | None
    reason: str | None
    framework_version: str | None
    schema_version: int | None
    pinned: bool
    labels: str | None
    size: int
    sha256: str | None
    source: str
    publisher_id: UUID | None
    publisher_seq: int | None
    traceparent: str | None
    tracestate: str | None
    extensions: str | None
    chain: str
    topic: str
    partition: int
    offset: int

    def logged(self) -> int:
        """When the log took it, microseconds since 1970 UTC. Raises `ValueError` for a text that is no time."""
        try:
            return microseconds("log_time", self.log_time.encode())
        except InvalidRecord as fault:
            raise ValueError(fault.detail) from None

    def event(self) -> StoredEvent:
        """The event, for the chain. Raises `ValueError` for a text that is not what it must be."""
        try:
            return StoredEvent(
                kind=self.kind,
                tenant_id=self.tenant_id,
                session_id=self.session_id,
                event_id=self.event_id.bytes,
                event_time=microseconds("event_time", self.event_time.encode()),
                source=self.source,
                checkpoint_id=self.checkpoint_id,
                parent_id=self.parent_id,
                run_id=_bytes(self.run_id),
                step=self.step,
                next_node=self.next_node,
                reason=self.reason,
                framework_version=self.framework_version,
                schema_version=self.schema_version,
                pinned=self.pinned,
                labels=_encoded(self.labels),
                publisher_id=_bytes(self.publisher_id),
                publisher_seq=self.publisher_seq,
                traceparent=self.traceparent,
                tracestate=self.tracestate,
                extensions=_encoded(self.extensions),
                stored_size=self.size,
                sha256=digest("sha256", self.sha256.encode()) if self.sha256 is not None else None,
            )
        except InvalidRecord as fault:
            raise ValueError(fault.detail) from None


class MemberDigest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A member of the archive, and what it must be."""

    name: str
    size: int
    sha256: str


class StatesDigest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The states in the archive."""

    count: int
    bytes: int
    sha256: str
    """Over a line for each, `SEQ SHA256`, in rising order."""


class Missing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Checkpoints that follow each other and whose states could not be had."""

    first_seq: int
    last_seq: int
    why: str


class ExportedLog(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The log from which the history comes."""

    cluster_id: str
    topic: str
    topic_id: str
    partitions: int


class ExportedHead(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The session's head in the view."""

    partition: int
    last_seq: int
    newest_seq: int | None
    newest_checkpoint_id: str | None
    first_event_time: str
    last_event_time: str
    live_checkpoints: int
    live_bytes: int
    deleted_at: str | None
    deleted_seq: int | None
    chain: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the archive is, and what must be in it. It names no time: the same session gives the same bytes."""

    format: str
    milepost: str
    asyncapi: str
    """The version of the wire's document."""
    tenant_id: str
    session_id: str
    log: ExportedLog
    head: ExportedHead
    events: int
    members: list[MemberDigest]
    """All but the states and the manifest itself."""
    states: StatesDigest
    missing: list[Missing]


_encode = msgspec.json.Encoder().encode
_decode_row = msgspec.json.Decoder(ExportedRow).decode
_decode_manifest = msgspec.json.Decoder(Manifest).decode


def line_of(entry: Entry) -> bytes:
    """The line of a row of history, with its end."""
    return _encode(_row(entry)) + b"\n"


def row_of(line: bytes) -> ExportedRow:
    """The row in a line. Raises `ValueError` for a line that `line_of` would not have written."""
    try:
        row = _decode_row(line)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    if _encode(row) != line:
        raise ValueError("expected the fields in their order and nothing else")
    return row


def manifest_text(manifest: Manifest) -> bytes:
    """The manifest as it stands in the archive, for people, too."""
    return msgspec.json.format(_encode(manifest), indent=2) + b"\n"


def manifest_of(text: bytes) -> Manifest:
    """The manifest in a text. Raises `ValueError`."""
    try:
        return _decode_manifest(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ValueError(str(error)) from None


def shown_time(value: int) -> str:
    """Microseconds since 1970 UTC, as on the wire."""
    return f"{to_datetime(value).astimezone(UTC).isoformat(timespec='microseconds')[:-6]}Z"


def _row(entry: Entry) -> ExportedRow:
    event = entry.event
    return ExportedRow(
        tenant_id=event.tenant_id,
        session_id=event.session_id,
        seq=entry.seq,
        kind=event.kind,
        outcome=Outcome(entry.outcome),
        event_id=UUID(bytes=event.event_id),
        event_time=shown_time(event.event_time),
        log_time=shown_time(entry.log_time),
        checkpoint_id=event.checkpoint_id,
        parent_id=event.parent_id,
        run_id=_uuid(event.run_id),
        step=event.step,
        next_node=event.next_node,
        reason=event.reason,
        framework_version=event.framework_version,
        schema_version=event.schema_version,
        pinned=event.pinned,
        labels=_text(event.labels),
        size=event.size,
        sha256=event.sha256.hex() if event.sha256 is not None else None,
        source=event.source,
        publisher_id=_uuid(event.publisher_id),
        publisher_seq=event.publisher_seq,
        traceparent=event.traceparent,
        tracestate=event.tracestate,
        extensions=_text(event.extensions),
        chain=(entry.chain or b"").hex(),
        topic=entry.topic,
        partition=entry.partition,
        offset=entry.offset,
    )


def _uuid(value: bytes | None) -> UUID | None:
    return UUID(bytes=value) if value is not None else None


def _bytes(value: UUID | None) -> bytes | None:
    return value.bytes if value is not None else None


def _text(value: bytes | None) -> str | None:
    return value.decode() if value is not None else None


def _encoded(value: str | None) -> bytes | None:
    return value.encode() if value is not None else None
