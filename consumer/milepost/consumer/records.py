"""A record of the log as the consumer holds it: where it stood, what it is, or why it is no event."""

from __future__ import annotations

from typing import Protocol

import msgspec

from milepost.consumer.headers import read_headers
from milepost.schemas import Envelope, InvalidRecord, Reason, decode
from milepost.schemas.partitioning import partition_of
from milepost.schemas.wire import Headers


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

    @property
    def size(self) -> int:
        """The bytes of the value."""
        return len(self.value) if self.value is not None else 0

    @property
    def weight(self) -> int:
        """The bytes of key, headers and value: what the record takes of memory."""
        return self.size + len(self.key or b"") + headers_size(self.headers)


class UnreadableMessage:
    """A message with the name of a header that is not UTF-8: its client gives out the headers, mended, only once."""

    def __init__(self, message: Message, headers: Headers) -> None:
        self._message = message
        self._headers = headers

    def partition(self) -> int | None:
        """As the message has it."""
        return self._message.partition()

    def offset(self) -> int | None:
        """As the message has it."""
        return self._message.offset()

    def timestamp(self) -> tuple[int, int]:
        """As the message has it."""
        return self._message.timestamp()

    def key(self) -> bytes | str | None:
        """As the message has it."""
        return self._message.key()

    def value(self) -> bytes | str | None:
        """As the message has it."""
        return self._message.value()

    def headers(self) -> Headers:
        """As they were read, by `read_headers`."""
        return self._headers


def weighed(message: Message) -> tuple[Message, int]:
    """A message without error, for `from_message`, and the bytes of its key, headers and value. To be called once for each."""
    headers, readable = read_headers(message)
    size = len(message.key() or b"") + headers_size(headers) + len(message.value() or b"")
    return (message if readable else UnreadableMessage(message, headers)), size


def headers_size(headers: Headers) -> int:
    """About the bytes of names and values."""
    return sum([len(name) + len(value or b"") for name, value in headers])


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
        return LogRecord(partition, offset, log_time, key, value, headers or (), None, fault)
    return LogRecord(partition, offset, log_time, key, value, headers or (), event)


def from_message(message: Message, partitions: int | None) -> LogRecord:
    """A record from a Kafka message without error; `partitions` as for `from_parts`."""
    partition, offset, log_time = message.partition(), message.offset(), message.timestamp()[1] * 1_000
    headers, readable = (message.headers(), False) if isinstance(message, UnreadableMessage) else read_headers(message)
    if not readable:
        return unreadable(partition, offset, log_time, message.key(), message.value(), headers)  # type: ignore[arg-type]
    return from_parts(partition, offset, log_time, message.key(), message.value(), headers, partitions)  # type: ignore[arg-type]


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
