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

_VERSION: Final = 1
"""Of the list of fields."""


def canonical(event: Envelope, seq: int, outcome: str) -> bytes:
    """The fields of a history row in their fixed order, as one MessagePack array; what is absent is nil."""
    return _encode(
        (
            _VERSION,
            event.kind,
            outcome,
            seq,
            event.tenant_id,
            event.session_id,
            event.event_id,
            event.event_time,
            event.source,
            event.checkpoint_id,
            event.parent_id,
            event.run_id,
            event.step,
            event.next_node,
            event.reason,
            event.framework_version,
            event.schema_version,
            event.pinned,
            event.labels,
            event.publisher_id,
            event.publisher_seq,
            event.traceparent,
            event.tracestate,
            event.extensions,
            event.size,
            event.sha256,
        )
    )


def extend(chain: bytes, event: Envelope, seq: int, outcome: str) -> bytes:
    """A session's chain after an event."""
    return sha256(chain + canonical(event, seq, outcome)).digest()


def extend_partition(digest: bytes, record: LogRecord) -> bytes:
    """A partition's digest after a record, whatever became of it: it is made of what the log holds alone.

    The record goes in as two values of MessagePack: offset, log time in milliseconds, key, SHA-256 of the value; and its
    headers, their names as strings, as bytes where they are not UTF-8.
    """
    value = None
    if record.event is not None and record.event.state is record.value:
        value = record.event.sha256  # in structured mode the state is a part of the value
    elif record.value is not None:
        value = sha256(record.value).digest()
    headers = record.packed or packed(record.headers)
    return sha256(digest + _encode((record.offset, record.log_time // 1_000, record.key, value)) + headers).digest()
