"""How rows go into Postgres by binary COPY: the columns, their types, and each row's values.

A json column takes raw bytes typed `bytea` unchanged, since its binary form is the text; a `str` typed `json` would be
encoded once more. In the same way a uuid is its 16 bytes, and a timestamptz the microseconds since 2000 as an int8.
"""

from __future__ import annotations

from typing import Final

from milepost.consumer.plan import HistoryRow

_POSTGRES_EPOCH: Final = 946_684_800_000_000
"""2000-01-01 UTC in microseconds since 1970: where Postgres counts from."""

_JSONB_VERSION: Final = b"\x01"

CHECKPOINT_COLUMNS: Final = {
    "tenant_id": "text",
    "session_id": "text",
    "seq": "int8",
    "checkpoint_id": "text",
    "event_id": "bytea",
    "parent_id": "text",
    "run_id": "bytea",
    "step": "int8",
    "next_node": "text",
    "created_at": "int8",
    "framework_version": "text",
    "schema_version": "int8",
    "labels": "bytea",
    "pinned": "bool",
    "size": "int4",
    "sha256": "bytea",
    "log_time": "int8",
    "partition": "int4",
    '"offset"': "int8",
    "state": "bytea",
}

MAC_COLUMNS: Final = {"mac": "bytea", "mac_key": "bytea"}

HISTORY_COLUMNS: Final = {
    "tenant_id": "text",
    "session_id": "text",
    "seq": "int8",
    "kind": "text",
    "outcome": "text",
    "event_id": "bytea",
    "event_time": "int8",
    "log_time": "int8",
    "checkpoint_id": "text",
    "parent_id": "text",
    "run_id": "bytea",
    "step": "int8",
    "next_node": "text",
    "reason": "text",
    "framework_version": "text",
    "schema_version": "int8",
    "pinned": "bool",
    "labels": "bytea",
    "size": "int4",
    "sha256": "bytea",
    "source": "text",
    "publisher_id": "bytea",
    "publisher_seq": "int8",
    "traceparent": "text",
    "tracestate": "text",
    "extensions": "bytea",
    "chain": "bytea",
    "topic": "text",
    "partition": "int4",
    '"offset"': "int8",
}


def checkpoint_values(row: HistoryRow) -> tuple[object, ...]:
    """The values of a live checkpoint, in the order of `CHECKPOINT_COLUMNS`."""
    event, record = row.event, row.record
    return (
        event.tenant_id,
        event.session_id,
        row.seq,
        event.checkpoint_id,
        event.event_id,
        event.parent_id,
        event.run_id,
        event.step,
        event.next_node,
        event.event_time - _POSTGRES_EPOCH,
        event.framework_version,
        event.schema_version,
        _JSONB_VERSION + event.labels if event.labels is not None else None,
        event.pinned,
        event.size,
        event.sha256,
        record.log_time - _POSTGRES_EPOCH,
        record.partition,
        record.offset,
        event.state,
    )


def history_values(row: HistoryRow, topic: str) -> tuple[object, ...]:
    """The values of a history row, in the order of `HISTORY_COLUMNS`."""
    event, record = row.event, row.record
    return (
        event.tenant_id,
        event.session_id,
        row.seq,
        event.kind,
        row.outcome,
        event.event_id,
        event.event_time - _POSTGRES_EPOCH,
        record.log_time - _POSTGRES_EPOCH,
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
        event.size,
        event.sha256,
        event.source,
        event.publisher_id,
        event.publisher_seq,
        event.traceparent,
        event.tracestate,
        event.extensions,
        row.chain,
        topic,
        record.partition,
        record.offset,
    )
