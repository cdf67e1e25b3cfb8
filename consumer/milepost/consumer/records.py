"""A record of the log as the consumer holds it: where it stood, what it is, or why it is no event."""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

from milepost.consumer.headers import packed, read_headers
from milepost.schemas import Envelope, InvalidRecord, Reason, decode
from milepost.schemas.partitioning import partition_of
from milepost.schemas.wire import Headers

_PACKED_BYTES: Final = 65_536
"""Larger headers are packed again when they are needed: twice in memory they would be too much."""


class Message(Protocol):
    """What is used of confluent_kafka's message."""

    def partition(self) -> int | None: ...
    def offset(self) -> int | None: ...
    def timestamp(self) -> tuple[int, int]: ...
    def key(self) -> bytes | str | None: ...
    def value(self) -> bytes | str | None: ...
    def headers(self) -> object: ...


class LogRecord(msgspec.Struct, gc=False):
    """One record, with its event or the reason why it has none."""

    partition: int
    offset: int
    log_time: int
    """When the log took it, microseconds since 1970 UTC."""
    key: bytes | None
    value: bytes | None
    headers: Headers
    event: Envelope | None
    fault: InvalidRecord | None = None
    packed: bytes = b""
    """The headers as MessagePack, where they were packed already."""

    @property
    def size(self) -> int:
        """The bytes of the value."""
        return len(self.value) if self.value is not None else 0


class RawRecord(msgspec.Struct, gc=False):
    """One record as the client gave it, not yet decoded."""

    partition: int
    offset: int
    log_time: int
    """When the log took it, microseconds since 1970 UTC."""
    key: bytes | None
    value: bytes | None
    headers: Headers
    is_readable: bool
    """Whether the name of each header is UTF-8."""
    weight: int
    """The bytes of key, headers (packed ones too) and value: what the record takes of memory."""
    packed: bytes = b""
    """As in `LogRecord`."""


def taken(message: Message) -> RawRecord:
    """What a message without error holds. To be called once for each: some headers the client gives out only once."""
    headers, is_readable = read_headers(message)
    key, value = message.key(), message.value()
    pack = packed(headers)
    size = len(pack)
    if size > _PACKED_BYTES:
        pack = b""
    weight = size + len(pack) + len(key or b"") + len(value or b"")
    return RawRecord(
        message.partition(),  # type: ignore[arg-type]
        message.offset(),  # type: ignore[arg-type]
        message.timestamp()[1] * 1_000,
        key,  # type: ignore[arg-type]
        value,  # type: ignore[arg-type]
        headers,
        is_readable,
        weight,
        pack,
    )


def decoded(raw: RawRecord, partitions: int | None) -> LogRecord:
    """The record with its event, or the reason why it has none; `partitions` as for `from_parts`."""
    parts = (raw.partition, raw.offset, raw.log_time, raw.key, raw.value, raw.headers)
    record = from_parts(*parts, partitions) if raw.is_readable else unreadable(*parts)
    record.packed = raw.packed
    return record


def from_parts(
    partition: int,
    offset: int,
    log_time: int,
    key: bytes | None,
    value: bytes | None,
    headers: Headers | None,
    partitions: int | None = None,
) -> LogRecord:
    """A record from what the log holds of it; `log_time` in microseconds.

    Of `partitions`, how many the log has, it must lie in the one that its key goes to; None asks nothing of where it lies.
    """
    try:
        event = decode(key, value, headers)
        if partitions is not None and key is not None:
            _check_partition(key, partition, partitions)
    except InvalidRecord as fault:
        # it is kept with the record, and its frames and causes would keep all that was decoded of it
        fault.__traceback__ = fault.__context__ = fault.__cause__ = None
        return LogRecord(partition, offset, log_time, key, value, headers or (), None, fault)
    return LogRecord(partition, offset, log_time, key, value, headers or (), event)


def _check_partition(key: bytes, partition: int, partitions: int) -> None:
    """Two consumers would write one session, if its events lay in two partitions."""
    if (expected := partition_of(key, partitions)) != partition:
        raise InvalidRecord(
            Reason.WRONG_PARTITION,
            f"expected the record in partition {expected} of {partitions}, where its key goes by murmur2, found it in "
            f"{partition}: set the publisher's partitioner to murmur2_random",
        )


def unreadable(
    partition: int, offset: int, log_time: int, key: bytes | None, value: bytes | None, headers: Headers
) -> LogRecord:
    """A record with the name of a header that is not UTF-8."""
    fault = InvalidRecord(Reason.UNREADABLE_HEADERS, "expected names of headers in UTF-8, found other bytes")
    return LogRecord(partition, offset, log_time, key, value, headers, None, fault)
