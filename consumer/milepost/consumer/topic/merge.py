"""A log as one sequence: all partitions, by the log's time, each partition in its own order.

Equal times go by partition, so that the sequence hangs on the log alone. A record is given once every partition has its next
one at hand; a partition that has brought enough is not read until the others have come as far.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from heapq import heappop, heappush
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from milepost.consumer import kafka
from milepost.consumer.fetcher import SETTINGS, SMALL_BITES
from milepost.consumer.log_errors import position_error
from milepost.schemas import KafkaUnavailable

HELD_BYTES: Final = 64 * 1024 * 1024
"""What waits for its turn, in all partitions together; at least one record of each, whatever its size."""
_RECORD_BYTES: Final = 1_000
"""About what a record costs beside its key and value."""
_AT_ONCE: Final = 500


class MergedLog:
    """Reads a log from its beginning up to `end`, the offsets after the last records wanted. Not for several threads."""

    def __init__(self, servers: str, topic: str, end: Mapping[int, int], *, held_bytes: int = HELD_BYTES) -> None:
        # a name is required; as a member of no group it is never used
        group = {"group.id": "milepost-topic", "error_cb": kafka.log_error}
        options: dict[str, Any] = {**kafka.settings(servers, "milepost-topic"), **SETTINGS, **SMALL_BITES, **group}
        self._topic = topic
        self._end = end
        self._next = {partition: 0 for partition, offset in end.items() if offset > 0}
        """Partitions that were not read to their end, and where they go on."""
        self._queues: dict[int, deque[Message]] = {partition: deque() for partition in self._next}
        self._held = dict.fromkeys(self._next, 0)
        self._share = held_bytes // max(len(self._next), 1)
        self._heads: list[tuple[int, int]] = []
        """Log time and partition of the first record of each queue, as a heap."""
        self._empty = set(self._next)
        """Partitions whose next record is not at hand."""
        self._consumer = Consumer(options)
        self._reading: set[int] = set()
        self._read(self._next)

    @property
    def is_done(self) -> bool:
        """Whether every record was given."""
        return not self._next and not self._heads

    def read(self, seconds: float) -> list[Message]:
        """Wait so long for records; those whose turn has come.

        Raises `WrongLog` when the log does not hold an offset, `KafkaUnavailable` for what librdkafka gives up.
        """
        first = self._consumer.poll(seconds)
        if first is not None:
            try:
                found = [first, *self._consumer.consume(_AT_ONCE - 1, 0)]
            except KafkaException as error:
                raise KafkaUnavailable(f"Kafka: {kafka.reason(error)}") from error
            for message in found:
                self._take(message)
        turn = self._in_turn()
        self._balance()
        return turn

    def close(self) -> None:
        """Close the connection to Kafka."""
        self._consumer.close()

    def _take(self, message: Message) -> None:
        partition, offset = message.partition(), message.offset()
        # what was on its way when its partition was put aside comes again
        if partition is None or offset is None or partition not in self._reading or offset < self._next[partition]:
            return
        if (fault := message.error()) is not None:
            if fault.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001
                position_error(fault, self._topic, partition, self._next[partition])
            elif offset >= self._end[partition]:
                self._complete(partition)
            return
        if offset < self._end[partition]:
            self._put(partition, message)
            self._next[partition] = offset + 1
        if offset + 1 >= self._end[partition]:
            self._complete(partition)

    def _put(self, partition: int, message: Message) -> None:
        queue = self._queues[partition]
        if not queue:
            heappush(self._heads, (message.timestamp()[1], partition))
            self._empty.discard(partition)
        queue.append(message)
        self._held[partition] += len(message) + _RECORD_BYTES

    def _in_turn(self) -> list[Message]:
        turn: list[Message] = []
        while self._heads and not self._empty:
            _, partition = heappop(self._heads)
            queue = self._queues[partition]
            message = queue.popleft()
            self._held[partition] -= len(message) + _RECORD_BYTES
            turn.append(message)
            if queue:
                heappush(self._heads, (queue[0].timestamp()[1], partition))
            elif partition in self._next:
                self._empty.add(partition)
        return turn

    def _balance(self) -> None:
        """Put aside what has brought enough, and go on with what is nearly used up."""
        full = [partition for partition in self._reading if self._held[partition] > self._share]
        if full:
            self._reading.difference_update(full)
            self._consumer.incremental_unassign([TopicPartition(self._topic, partition) for partition in full])
        self._read([p for p in self._next if p not in self._reading and self._held[p] <= self._share // 4])

    def _read(self, partitions: Iterable[int]) -> None:
        if wanted := [TopicPartition(self._topic, partition, self._next[partition]) for partition in partitions]:
            self._reading.update(partition.partition for partition in wanted)
            self._consumer.incremental_assign(wanted)

    def _complete(self, partition: int) -> None:
        del self._next[partition]
        self._empty.discard(partition)
        self._reading.discard(partition)
        self._consumer.incremental_unassign([TopicPartition(self._topic, partition)])
