"""What a MAC covers, and its bytes: docs/integrity.md defines them; a test recomputes its example.

The canonical form is the MessagePack array of the fields in their order, its kind first. Each value carries its type and its
length, an absent one is nil: no two rows have the same bytes. Labels are pairs sorted by name, as `jsonb` keeps no order.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

EPOCH: Final = 946_684_800_000_000
"""2000-01-01 UTC in microseconds since 1970: where Postgres counts from."""
_unpack: Final = struct.Struct("!q").unpack
_decode_texts: Final = msgspec.json.Decoder(dict[str, str]).decode
_encode: Final = msgspec.msgpack.Encoder().encode

Labels = tuple[tuple[str, str], ...]


class CheckpointFacts(msgspec.Struct, array_like=True, tag="milepost.checkpoints/1", frozen=True, gc=False):
    """A row of `milepost.checkpoints` without its state, and the topic of the view."""

    topic: str | None
    tenant_id: str
    session_id: str
    checkpoint_id: str
    seq: int
    event_id: bytes
    """A UUID's 16 bytes."""
    parent_id: str | None
    run_id: bytes | None
    step: int | None
    next_node: str | None
    created_at: int
    """Microseconds since 1970 UTC."""
    framework_version: str | None
    schema_version: int | None
    labels: Labels | None
    """Sorted by name."""
    pinned: bool
    size: int
    sha256: bytes
    log_time: int
    """Microseconds since 1970 UTC."""
    partition: int
    offset: int

    @property
    def key(self) -> dict[str, str]:
        """What names the row."""
        return {
            "tenant_id": self.tenant_id,
            "session_id": self.session_id,
            "seq": str(self.seq),
            "checkpoint_id": self.checkpoint_id,
        }


class HeadFacts(msgspec.Struct, array_like=True, tag="milepost.sessions/1", frozen=True, gc=False):
    """A row of `milepost.sessions`, and the topic of the view. Times are microseconds since 1970 UTC."""

    topic: str | None
    tenant_id: str
    session_id: str
    partition: int
    last_seq: int
    newest_seq: int | None
    newest_checkpoint_id: str | None
    first_event_time: int
    last_event_time: int
    live_checkpoints: int
    live_bytes: int
    deleted_at: int | None
    deleted_seq: int | None
    max_event_id: bytes
    max_checkpoint_id: str | None
    chain: bytes
    pruned_seq: int

    @property
    def key(self) -> dict[str, str]:
        """What names the row."""
        return {"tenant_id": self.tenant_id, "session_id": self.session_id}

    def allows(self, row: CheckpointFacts) -> bool:
        """Whether a genuine row of the session is live: retention takes the oldest first, all but the pinned ones."""
        if not (self.deleted_seq or 0) < row.seq <= self.last_seq:
            return False
        return row.pinned or row.seq > self.pruned_seq


class UnreadableError(Exception):
    """A stored value that the consumer cannot have written. `field` names its column, `found` says what it holds."""

    def __init__(self, field: str, found: str, key: dict[str, str]) -> None:
        super().__init__(field, found, key)
        self.field = field
        self.found = found
        self.key = key


def canonical(facts: CheckpointFacts | HeadFacts) -> bytes:
    """The bytes that a MAC is made of."""
    return _encode(facts)


@lru_cache(maxsize=1_024)
def labels_of(text: bytes | None) -> Labels | None:
    """Labels of a JSON object of strings. Raises `msgspec.DecodeError` for anything else."""
    return tuple(sorted(_decode_texts(text).items())) if text is not None else None


def moment(data: bytes) -> int:
    """Microseconds since 1970 of a timestamptz as `timestamptz_send` gives it."""
    return int(_unpack(data)[0]) + EPOCH


# by position, which mypy cannot count
_new_row: Final[Callable[..., CheckpointFacts]] = CheckpointFacts
_new_head: Final[Callable[..., HeadFacts]] = HeadFacts

CHECKPOINT_FACTS: Final = 19
"""Columns of a row in `checkpoint_facts`."""
HEAD_FACTS: Final = 16
"""Columns of a row in `head_facts`."""


def checkpoint_facts(topic: str | None, row: Sequence[Any]) -> CheckpointFacts:
    """The facts in the columns tenant_id, session_id, seq, checkpoint_id, event_id, parent_id, run_id, step, next_node,
    created_at, framework_version, schema_version, pinned, size, sha256, log_time, labels, partition, offset.

    Ids by `uuid_send`, times by `timestamptz_send`, labels as the bytes of their text: what somebody wrote there by hand must not
    fail to load. Raises `UnreadableError`.
    """
    try:
        labels = labels_of(row[16])
    except (msgspec.DecodeError, UnicodeDecodeError):
        key = dict(zip(("tenant_id", "session_id", "seq", "checkpoint_id"), map(str, row[:4]), strict=True))
        raise UnreadableError("labels", f"{row[16]!r:.200}", key) from None
    return _new_row(
        topic,
        row[0],
        row[1],
        row[3],
        row[2],
        *row[4:9],
        moment(row[9]),
        row[10],
        row[11],
        labels,
        row[12],
        row[13],
        row[14],
        moment(row[15]),
        row[17],
        row[18],
    )


def head_facts(topic: str | None, row: Sequence[Any]) -> HeadFacts:
    """The facts in the columns of `milepost.sessions`, in their order; ids by `uuid_send`, times by `timestamptz_send`."""
    return _new_head(
        topic,
        *row[:6],
        moment(row[6]),
        moment(row[7]),
        row[8],
        row[9],
        moment(row[10]) if row[10] is not None else None,
        *row[11:16],
    )
