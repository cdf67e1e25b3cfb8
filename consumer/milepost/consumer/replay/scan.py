"""Reading a part of the log from one offset to another, without a consumer group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from milepost.consumer import kafka
from milepost.consumer.reader import SETTINGS, STEP, position_error
from milepost.consumer.records import weighed
from milepost.schemas import KafkaUnavailable

_BYTES_AT_ONCE: Final = 8_000_000


class Scan:
    """Reads partitions from `start` up to `end`, which is the offset after the last record wanted. Not for several threads."""

    def __init__(self, servers: str, topic: str, start: Mapping[int, int], end: Mapping[int, int]) -> None:
        options: dict[str, Any] = {
            **kafka.settings(servers, "milepost-replay"),
            **SETTINGS,
            # a name is required; as a member of no group it is never used
            "group.id": "milepost-replay",
            "error_cb": kafka.log_error,
        }
        self._topic = topic
        self._consumer = Consumer(options)
        self._end = end
        self._left = {partition: offset for partition, offset in start.items() if offset < end[partition]}
        self._consumer.assign([TopicPartition(topic, partition, offset) for partition, offset in self._left.items()])

    @property
    def is_done(self) -> bool:
        """Whether every partition was read to its end."""
        return not self._left

    def read(self, limit: int, seconds: float) -> tuple[list[Message], dict[int, int]]:
        """Wait so long for a record, then take what is there with it. Also gives the next offset of each partition read.

        Raises `WrongLog` when the log does not hold an offset, `KafkaUnavailable` for what librdkafka gives up.
        """
        first = self._consumer.poll(seconds)
        messages: list[Message] = []
        reached: dict[int, int] = {}
        found = [first] if first is not None else []
        taken = largest = count = 0
        while found:
            sizes = [self._take(message, messages, reached) for message in found]
            count += len(found)
            taken += sum(sizes)
            largest = max(largest, *sizes)
            if count >= limit or taken + STEP * largest >= _BYTES_AT_ONCE:
                break
            try:
                found = self._consumer.consume(min(STEP, limit - count), 0)
            except KafkaException as error:
                raise KafkaUnavailable(f"Kafka: {kafka.reason(error)}") from error
        return messages, reached

    def close(self) -> None:
        """Close the connection to Kafka."""
        self._consumer.close()

    def _take(self, message: Message, messages: list[Message], reached: dict[int, int]) -> int:
        """Put a message to those that are wanted. Gives how large it is."""
        partition, offset = message.partition(), message.offset()
        if partition is None or offset is None or partition not in self._left:
            return len(message)
        if (fault := message.error()) is not None:
            self._take_error(fault, partition, offset, reached)
            return len(message)
        whole, size = weighed(message)
        # beyond the end there may be a record all the same, where markers of transactions lie between
        if offset < self._end[partition]:
            messages.append(cast(Message, whole))  # it has all that is used of one
        reached[partition] = min(offset + 1, self._end[partition])
        self._moved(partition, reached[partition])
        return size

    def _take_error(self, error: KafkaError, partition: int, offset: int, reached: dict[int, int]) -> None:
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
            if offset >= self._end[partition]:
                reached[partition] = self._end[partition]
                self._moved(partition, offset)
        else:
            position_error(error, self._topic, partition, self._left.get(partition))

    def _moved(self, partition: int, offset: int) -> None:
        self._left[partition] = offset
        if offset >= self._end[partition]:
            del self._left[partition]
            self._consumer.incremental_unassign([TopicPartition(self._topic, partition)])
