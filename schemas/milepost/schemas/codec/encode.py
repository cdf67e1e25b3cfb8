"""From an event to a Kafka record: CloudEvents 1.0, binary content mode."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from typing import Final
from uuid import UUID

import msgspec

from milepost.schemas.errors import InvalidEvent
from milepost.schemas.events import CheckpointCreated, Event, SessionDeleted
from milepost.schemas.ids import id_problem, session_key, tenant_problem, text_problem
from milepost.schemas.json_text import find_fault
from milepost.schemas.wire import MAX_INTEGER, MAX_LABELS_BYTES, MAX_TEXT_CHARACTERS, EncodedEvent

_Header = tuple[str, str | bytes | None]

_CREATED: Final[list[_Header]] = [
    ("ce_specversion", b"1.0"),
    ("ce_type", b"milepost.checkpoint-created.v1"),
    ("content-type", b"application/json"),
]
_DELETED: Final[list[_Header]] = [("ce_specversion", b"1.0"), ("ce_type", b"milepost.session-deleted.v1")]
_encode_json = msgspec.json.Encoder().encode


class CheckedEvent(msgspec.Struct, frozen=True, gc=False):
    """An event that keeps the rules, on its way to a record: what could be refused, or could change, is done."""

    event: Event
    key: bytes
    extra: list[_Header]
    """The headers of the optional attributes; who publishes may add to them."""


def encode(event: Event, *, source: str) -> EncodedEvent:
    """The record of an event, made by the publisher named by `source`, a URI reference.

    Raises `InvalidEvent` when the event, or the source, breaks a rule of the wire.
    """
    _text("source", source)
    return render(check(event), source=source)


def check(event: Event) -> CheckedEvent:
    """The first half of `encode`, and the cheaper one. Raises `InvalidEvent`."""
    if isinstance(event, CheckpointCreated):
        key = _key(event)
        if type(event.state) is not bytes:
            raise InvalidEvent("state", f"expected bytes, found {type(event.state).__name__}")
        if (fault := find_fault(event.state)) is not None:
            raise InvalidEvent("state", str(fault))
        if (problem := id_problem(event.checkpoint_id)) is not None:
            raise InvalidEvent("checkpoint_id", problem)
        _check_common(event.event_id, "created_at", event.created_at)
        extra: list[_Header] = []
        _add_optional(extra, event)
        return CheckedEvent(event, key, extra)
    if isinstance(event, SessionDeleted):
        key = _key(event)
        _check_common(event.event_id, "deleted_at", event.deleted_at)
        return CheckedEvent(event, key, [] if event.reason is None else [("ce_reason", _text("reason", event.reason))])
    raise InvalidEvent("event", f"expected CheckpointCreated or SessionDeleted, found {type(event).__name__}")


def render(checked: CheckedEvent, *, source: str) -> EncodedEvent:
    """The second half of `encode`: the digest and the headers. Refuses nothing, so it may run later, elsewhere."""
    event, key = checked.event, checked.key
    if isinstance(event, CheckpointCreated):
        state: bytes | None = event.state
        headers = [
            *_CREATED,
            *_common(event, source, event.created_at, key),
            ("ce_checkpointid", event.checkpoint_id),
            ("ce_statesha256", sha256(event.state).hexdigest()),
            *checked.extra,
        ]
    else:
        state = None
        headers = [*_DELETED, *_common(event, source, event.deleted_at, key), *checked.extra]
    return EncodedEvent(key, state, headers)


def _check_common(event_id: UUID, field: str, moment: datetime) -> None:
    if not isinstance(event_id, UUID):
        raise InvalidEvent("event_id", f"expected a UUID, found {type(event_id).__name__}")
    if type(moment) is not datetime or moment.tzinfo is not UTC:
        _rfc3339(field, moment)


def _common(event: Event, source: str, moment: datetime, key: bytes) -> tuple[_Header, ...]:
    return (
        ("ce_id", str(event.event_id)),
        ("ce_source", source),
        ("ce_time", _rfc3339("time", moment)),
        ("ce_partitionkey", key),
        ("ce_tenantid", event.tenant_id),
        ("ce_sessionid", event.session_id),
    )


def _add_optional(headers: list[_Header], event: CheckpointCreated) -> None:
    if event.parent_id is not None:
        if (problem := id_problem(event.parent_id)) is not None:
            raise InvalidEvent("parent_id", problem)
        headers.append(("ce_parentid", event.parent_id))
    if event.run_id is not None:
        if not isinstance(event.run_id, UUID):
            raise InvalidEvent("run_id", f"expected a UUID, found {type(event.run_id).__name__}")
        headers.append(("ce_runid", str(event.run_id)))
    if event.step is not None:
        headers.append(("ce_step", _integer("step", event.step)))
    if event.next_node is not None:
        headers.append(("ce_nextnode", _text("next_node", event.next_node)))
    if event.framework_version is not None:
        headers.append(("ce_frameworkversion", _text("framework_version", event.framework_version)))
    if event.schema_version is not None:
        headers.append(("ce_schemaversion", _integer("schema_version", event.schema_version)))
    if event.pinned:
        headers.append(("ce_pinned", b"true"))
    if event.labels:
        headers.append(("ce_labels", _labels(event.labels)))


def _key(event: Event) -> bytes:
    try:
        return _checked_key(event.tenant_id, event.session_id)
    except TypeError:  # not hashable, so not a text
        raise InvalidEvent("tenant_id, session_id", "expected texts") from None


@lru_cache(maxsize=65_536)
def _checked_key(tenant_id: str, session_id: str) -> bytes:
    if (problem := tenant_problem(tenant_id)) is not None:
        raise InvalidEvent("tenant_id", problem)
    if (problem := id_problem(session_id)) is not None:
        raise InvalidEvent("session_id", problem)
    return session_key(tenant_id, session_id)


def _rfc3339(field: str, moment: datetime) -> str:
    if not isinstance(moment, datetime) or moment.utcoffset() is None:
        raise InvalidEvent(field, f"expected a datetime with a time zone, found {moment!r}")
    try:
        if moment.tzinfo is UTC:
            return f"{moment.isoformat(timespec='microseconds')[:-6]}Z"
        return f"{moment.astimezone(UTC).isoformat(timespec='microseconds')[:-6]}Z"
    except OverflowError:
        raise InvalidEvent(field, f"expected a time between the years 1 and 9999 UTC, found {moment!r}") from None


def _integer(field: str, value: int) -> str:
    if type(value) is not int or not 0 <= value <= MAX_INTEGER:
        raise InvalidEvent(field, f"expected an integer from 0 to {MAX_INTEGER}, found {value!r}")
    return str(value)


def _text(field: str, value: str) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= MAX_TEXT_CHARACTERS:
        raise InvalidEvent(field, f"expected a text of 1 to {MAX_TEXT_CHARACTERS} characters, found {value!r:.80}")
    if (problem := text_problem(value)) is not None:
        raise InvalidEvent(field, problem)
    return value


def _labels(labels: Mapping[str, str]) -> bytes:
    if not isinstance(labels, Mapping):
        raise InvalidEvent("labels", f"expected a mapping of texts, found {type(labels).__name__}")
    for pair in labels.items():
        for part in pair:
            if not isinstance(part, str) or "\0" in part or not _is_unicode(part):
                raise InvalidEvent("labels", f"expected texts without U+0000, found {part!r:.80}")
    encoded = _encode_json(dict(labels))
    if len(encoded) > MAX_LABELS_BYTES:
        raise InvalidEvent("labels", f"expected at most {MAX_LABELS_BYTES} bytes as JSON, found {len(encoded)}")
    return encoded


def _is_unicode(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)
