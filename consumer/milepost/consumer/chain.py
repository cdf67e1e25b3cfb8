"""The digests that make a changed history show. docs/chain.md defines them to the byte; a test recomputes its example.

A session's chain goes from event to event, outcomes included; a partition's digest goes over its records as the log holds
them, quarantined ones too, and knows no rules. Both depend on the log alone. A session's chain leaves out where the record
stood, so that a log copied to a wider topic keeps its chains; the partition's digest holds it.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

import msgspec

from milepost.consumer.headers import packed
from milepost.consumer.records import LogRecord
from milepost.schemas import Envelope

_encode = msgspec.msgpack.Encoder().encode

START: Final = bytes(32)
"""What stands before the first event."""

# no field can hold it: texts are printable, and JSON has no raw control character but tab and line ends
_SEPARATOR: Final = "\x1f"


def canonical(event: Envelope, seq: int, outcome: str) -> bytes:
    """The fields of a history row in their fixed order; what is absent is empty."""
    fields = (
        "1",
        event.kind,
        outcome,
        str(seq),
        event.tenant_id,
        event.session_id,
        event.event_id.hex(),
        str(event.event_time),
        event.source,
        event.checkpoint_id or "",
        event.parent_id or "",
        event.run_id.hex() if event.run_id is not None else "",
        str(event.step) if event.step is not None else "",
        event.next_node or "",
        event.reason or "",
        event.framework_version or "",
        str(event.schema_version) if event.schema_version is not None else "",
        "true" if event.pinned else "false",
        event.labels.decode() if event.labels is not None else "",
        event.publisher_id.hex() if event.publisher_id is not None else "",
        str(event.publisher_seq) if event.publisher_seq is not None else "",
        event.traceparent or "",
        event.tracestate or "",
        event.extensions.decode() if event.extensions is not None else "",
        str(event.size),
        event.sha256.hex() if event.sha256 is not None else "",
    )
    return _SEPARATOR.join(fields).encode()


def extend(chain: bytes, event: Envelope, seq: int, outcome: str) -> bytes:
    """A session's chain after an event."""
    return sha256(chain + canonical(event, seq, outcome)).digest()


def extend_partition(digest: bytes, record: LogRecord) -> bytes:
    """A partition's digest after a record, whatever became of it: it is made of what the log holds alone.

    The record goes in as MessagePack: offset, log time in milliseconds, key, SHA-256 of the value, headers; the name of a
    header as a string, as bytes where it is not UTF-8.
    """
    value = None
    if record.event is not None and record.event.state is record.value:
        value = record.event.sha256  # in structured mode the state is a part of the value
    elif record.value is not None:
        value = sha256(record.value).digest()
    headers = msgspec.Raw(record.packed or packed(record.headers))
    return sha256(digest + _encode((record.offset, record.log_time // 1_000, record.key, value, headers))).digest()
