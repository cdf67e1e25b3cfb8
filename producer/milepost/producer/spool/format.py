"""The bytes of a spool's files.

A file begins with `FILE_MAGIC`, a mark (the offset below which all is settled, and its CRC), and what the file is, as
JSON with its length and CRC. Then come records: magic, number, length, CRC of the body, CRC of these four; the body. It is
the checked event in MessagePack, not rendered yet, since that would double what the caller of `publish` pays.

The magics hold 0xFF. States, keys and headers are UTF-8, where it never stands, so after a damaged record the next one
is found again, and nothing inside a state can be taken for one.
"""

from __future__ import annotations

import os
from struct import Struct
from typing import Any, Final, NamedTuple
from uuid import UUID
from zlib import crc32

import msgspec

from milepost.schemas import CheckpointCreated, Event, SessionDeleted
from milepost.schemas.codec import CheckedEvent
from milepost.schemas.codec.attributes import to_datetime, to_microseconds
from milepost.schemas.ids import session_key

FILE_MAGIC: Final = b"\xffmpspl1\n"
RECORD_MAGIC: Final = b"\xffMP1"
_RECORD: Final = Struct("<4sQII")
_CRC: Final = Struct("<I")
_MARK: Final = Struct("<QI")
_LENGTH: Final = Struct("<II")
HEAD_BYTES: Final = _RECORD.size + _CRC.size
_MARK_AT: Final = len(FILE_MAGIC)
_ABOUT_AT: Final = _MARK_AT + _MARK.size
CHUNK_BYTES: Final = 1024 * 1024
MAX_ABOUT_BYTES: Final = 65_536

# tenant, session, event id, time, state and checkpoint id (both None for a deletion), headers of optional attributes;
# msgspec takes no union of str and bytes
_Packed = tuple[str, str, bytes, int, bytes | None, str | None, list[tuple[str, Any]]]
_pack = msgspec.msgpack.Encoder(enc_hook=str.__str__).encode  # a text of a subclass goes as the text it is
_unpack = msgspec.msgpack.Decoder(_Packed).decode


class About(msgspec.Struct, frozen=True):
    """Whose events a file holds."""

    publisher_id: str
    topic: str
    source: str


class Found(NamedTuple):
    """A record of a file, or a stretch of it that is none."""

    seq: int | None
    """The publisher's number of the event; None where it can't be known."""
    body: bytes | None
    """None when it is damaged."""
    start: int
    end: int


def pack(checked: CheckedEvent) -> bytes:
    """A record's body."""
    event = checked.event
    if isinstance(event, CheckpointCreated):
        moment, state, checkpoint_id = event.created_at, event.state, event.checkpoint_id
    else:
        moment, state, checkpoint_id = event.deleted_at, None, None
    names = event.tenant_id, event.session_id
    return _pack((*names, event.event_id.bytes, to_microseconds(moment), state, checkpoint_id, checked.extra))


def unpack(body: bytes, seq: int) -> CheckedEvent:
    """The event in a body, with its number. Raises `msgspec.MsgspecError` or `ValueError` for a body that is none."""
    tenant_id, session_id, raw_id, moment, state, checkpoint_id, extra = _unpack(body)
    event_id, time = UUID(bytes=raw_id), to_datetime(moment)
    extra.append(("ce_publisherseq", str(seq)))
    event: Event
    if state is None or checkpoint_id is None:
        event = SessionDeleted(tenant_id=tenant_id, session_id=session_id, deleted_at=time, event_id=event_id)
    else:
        event = CheckpointCreated(
            tenant_id=tenant_id,
            session_id=session_id,
            state=state,
            checkpoint_id=checkpoint_id,
            created_at=time,
            event_id=event_id,
        )
    return CheckedEvent(event, session_key(tenant_id, session_id), extra)


def head_of(seq: int, length: int, crc: int) -> bytes:
    """What stands in front of a body."""
    head = _RECORD.pack(RECORD_MAGIC, seq, length, crc)
    return head + _CRC.pack(crc32(head))


def file_head(about: About) -> bytes:
    """What stands at the beginning of a file."""
    text = msgspec.json.encode(about)
    start = _ABOUT_AT + _LENGTH.size + len(text)
    return FILE_MAGIC + mark_of(start) + _LENGTH.pack(len(text), crc32(text)) + text


def mark_of(offset: int) -> bytes:
    """The mark that says: all below this offset is settled."""
    number = offset.to_bytes(8, "little")
    return number + _CRC.pack(crc32(number))


def write_mark(fd: int, offset: int) -> None:
    """Move a file's mark. Raises `OSError`."""
    os.pwrite(fd, mark_of(offset), _MARK_AT)


def read_about(fd: int) -> tuple[About, int] | None:
    """What a file is, and where its first record begins; None when it is not one of a spool."""
    head = os.pread(fd, _ABOUT_AT + _LENGTH.size + MAX_ABOUT_BYTES, 0)
    if not head.startswith(FILE_MAGIC) or len(head) < _ABOUT_AT + _LENGTH.size:
        return None
    length, crc = _LENGTH.unpack_from(head, _ABOUT_AT)
    start = _ABOUT_AT + _LENGTH.size + length
    text = head[_ABOUT_AT + _LENGTH.size : start]
    if len(text) != length or crc32(text) != crc:
        return None
    try:
        return msgspec.json.decode(text, type=About), start
    except msgspec.MsgspecError:
        return None


def read_mark(fd: int, start: int, size: int) -> int:
    """Where the first record stands that may not be settled. A mark that can't be trusted means: at the beginning."""
    raw = os.pread(fd, _MARK.size, _MARK_AT)
    offset, crc = _MARK.unpack(raw)
    if crc32(raw[:8]) != crc or not start <= offset <= size:
        return start
    if offset < size and _head(os.pread(fd, HEAD_BYTES, offset), 0) is None:
        return start
    return int(offset)


def read_records(fd: int, at: int, end: int) -> tuple[list[Found], int]:
    """The records from `at` on, about a chunk of them, and where to go on. `at` must be below `end`."""
    data = os.pread(fd, min(CHUNK_BYTES, end - at), at)
    found: list[Found] = []
    position = 0
    while position < len(data):
        head = _head(data, position)
        if head is None and found and len(data) - position < HEAD_BYTES:
            break  # cut by the chunk, not by the file
        start = at + position
        total = HEAD_BYTES + (head[1] if head is not None else 0)
        if head is None or start + total > end:
            stop = _next_record(fd, start + 1, end)
            return [*found, Found(None, None, start, stop)], stop
        if position + total > len(data):
            if found:
                break
            data = os.pread(fd, total, at)
            if len(data) < total:
                break
        body = data[position + HEAD_BYTES : position + total]
        found.append(Found(head[0], body if crc32(body) == head[2] else None, start, start + total))
        position += total
    if not found:  # the file is shorter than it was
        return [Found(None, None, at, end)], end
    return found, at + position


def _head(data: bytes, at: int) -> tuple[int, int, int] | None:
    """Number, length and CRC of the record there, None when there is none."""
    if len(data) - at < HEAD_BYTES:
        return None
    magic, seq, length, crc = _RECORD.unpack_from(data, at)
    if magic != RECORD_MAGIC or _CRC.unpack_from(data, at + _RECORD.size)[0] != crc32(data[at : at + _RECORD.size]):
        return None
    return seq, length, crc


def _next_record(fd: int, at: int, end: int) -> int:
    """Where the next whole head stands, or the end."""
    while at < end:
        data = os.pread(fd, min(CHUNK_BYTES, end - at), at)
        if len(data) < HEAD_BYTES:
            break
        position = data.find(RECORD_MAGIC)
        while position >= 0:
            head = _head(data, position)
            if head is not None and at + position + HEAD_BYTES + head[1] <= end:
                return at + position
            position = data.find(RECORD_MAGIC, position + 1)
        at += len(data) - HEAD_BYTES + 1  # a head may stand across two chunks
    return end
