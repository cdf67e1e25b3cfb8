"""The Kafka side of a consumer: group membership, and reading from the positions that the view holds.

The group's own offsets are never read; they are committed so that lag tools show something.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from milepost.consumer import kafka, records
from milepost.schemas import KafkaUnavailable, WrongLog

logger = logging.getLogger(__name__)

_COMMIT_SECONDS: Final = 5.0
_LEAVE_SECONDS: Final = 5.0
SETTINGS: Final[Mapping[str, str | int | bool]] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    # a position outside the log means another log or lost records: never jump, say so
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "partition.assignment.strategy": "range",
    "session.timeout.ms": 10_000,
    "heartbeat.interval.ms": 3_000,
    # the default of 1000 makes a full queue wait a second: a third of the speed (docs/performance.md)
    "fetch.queue.backoff.ms": 2,
    # What waits in memory, whatever the log holds. A fetch is limited by what it brings compressed, and zstd packs 16 MiB of
    # a dull state into 900 bytes; a batch that is larger than the limit comes all the same, alone (docs/quarantine.md).
    "queued.max.messages.kbytes": 16_384,
    # The limit above counts no headers, and a record may have 16 MiB of them: more is fetched when fewer than these wait.
    "queued.min.messages": 8,
    "fetch.message.max.bytes": 8_192,
    "fetch.max.bytes": 8_192,
    "message.max.bytes": 1_000,  # fetch.max.bytes is never below it
    # also the most that a compressed batch may unfold to, though from a third of it on that is luck
    "receive.message.max.bytes": 268_435_456,
}

STEP: Final = 4
"""How many records are taken from librdkafka at once: each may have 17 MiB."""


class Chunk(msgspec.Struct):
    """What one read gave."""

    messages: list[records.Message]
    skips: dict[int, int]
    """Partitions whose end lies beyond their last record, by markers of transactions: where they go on."""


class LogReader:
    """A member of the view's consumer group. Not for several threads."""

    def __init__(self, servers: str, topic: str, group: str) -> None:
        self._topic = topic
        options: dict[str, Any] = {
            **kafka.settings(servers, "milepost-consumer"),
            **SETTINGS,
            "group.id": group,
            "error_cb": kafka.log_error,
        }
        self._consumer = Consumer(options)
        self._next: dict[int, int] = {}
        self._uncommitted: dict[int, int] = {}
        self._last_commit = time.monotonic()
        self.assigned: frozenset[int] = frozenset()
        self.started = False
        """Whether the assigned partitions are being read; false from a rebalance until `start`."""
        self._consumer.subscribe([topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke)

    def start(self, positions: Mapping[int, int]) -> None:
        """Read the assigned partitions from these offsets on."""
        self._next = dict(positions)
        self._consumer.assign(
            [TopicPartition(self._topic, partition, offset) for partition, offset in positions.items()]
        )
        self.started = True

    def hold(self) -> None:
        """Stop reading, but stay in the group."""
        self.started = False
        self._consumer.assign([])

    def read(self, limit: int, size: int, seconds: float) -> Chunk:
        """Wait so long for a record, then take what is there with it: `limit` records and about `size` bytes of keys, headers and
        values at most.

        Serves rebalances meanwhile. Raises `WrongLog` when a position lies outside the log, `KafkaUnavailable` when the
        group refuses us for good.
        """
        chunk = Chunk([], {})
        first = self._consumer.poll(seconds)
        if first is None:
            return chunk
        taken = largest = self._take(first, chunk)
        left = limit - 1
        # only what has arrived already: consume() would wait for all that it is asked for with any timeout but zero
        while left > 0 and taken + STEP * largest < size:
            messages = self._consumer.consume(min(STEP, left), 0)
            if not messages:
                break
            left -= len(messages)
            sizes = [self._take(message, chunk) for message in messages]
            taken += sum(sizes)
            largest = max(largest, *sizes)
        # a rebalance inside consume() takes partitions away from what poll() gave
        if not self.started:
            return Chunk([], {})
        return chunk

    def idle(self, seconds: float) -> None:
        """Wait while staying in the group; what arrives is dropped, since `start` reads it again."""
        limit = time.monotonic() + seconds
        while (left := limit - time.monotonic()) > 0:
            self._consumer.poll(left)

    def commit(self, positions: Mapping[int, int], *, now: bool = False) -> None:
        """Tell the group where we are, now and then. For lag tools alone: a failure changes nothing."""
        self._uncommitted.update(positions)
        if not self._uncommitted or not (now or time.monotonic() - self._last_commit > _COMMIT_SECONDS):
            return
        offsets = [
            TopicPartition(self._topic, partition, offset)
            for partition, offset in self._uncommitted.items()
            if partition in self.assigned
        ]
        self._uncommitted.clear()
        self._last_commit = time.monotonic()
        try:
            if offsets:
                self._consumer.commit(offsets=offsets, asynchronous=True)
        except KafkaException as error:
            logger.debug("the group's offsets were not committed: %s", kafka.reason(error))

    def close(self) -> None:
        """Leave the group. A broker that does not answer holds nobody up for long: it will find out by itself."""
        leaving = threading.Thread(target=self._consumer.close, name="milepost-leave", daemon=True)
        leaving.start()
        leaving.join(_LEAVE_SECONDS)

    def _take(self, message: Message, chunk: Chunk) -> int:
        """Put a message to the chunk. Gives how large it is."""
        error = message.error()
        partition, offset = message.partition(), message.offset()
        if error is not None:
            self._take_error(error, partition, offset, chunk)
        elif partition in self._next and offset is not None and offset >= self._next[partition]:
            self._next[partition] = offset + 1
            whole, size = records.weighed(message)
            chunk.messages.append(whole)
            return size
        return len(message)

    def _take_error(self, error: KafkaError, partition: int | None, offset: int | None, chunk: Chunk) -> None:
        code = error.code()
        if code == KafkaError._PARTITION_EOF:  # noqa: SLF001
            if partition in self._next and offset is not None and offset > self._next[partition]:
                self._next[partition] = chunk.skips[partition] = offset
        else:
            position_error(error, self._topic, partition, self._next.get(partition) if partition is not None else None)

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.assigned = frozenset(partition.partition for partition in partitions)
        self.started = False
        # nothing is read until the view has said where to start, which may take a while; not paused instead, since
        # librdkafka loses a resume() that follows closely on assign() and pause()
        consumer.assign([])
        logger.info("assigned partitions %s", _shown(self.assigned))

    def _on_revoke(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        logger.info("gave up partitions %s", _shown(partition.partition for partition in partitions))
        self.assigned = frozenset()
        self.started = False
        self._next.clear()


def position_error(error: KafkaError, topic: str, partition: int | None, position: int | None) -> None:
    """What an error in place of a record means; what librdkafka mends by itself is only logged.

    Raises `WrongLog` when the log does not hold the position, or what stands there can't be unpacked; `KafkaUnavailable` when
    librdkafka has given up.
    """
    code = error.code()
    if code in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):  # noqa: SLF001
        raise WrongLog(
            f"the view stands at offset {position} of partition {partition} of {topic}, and the log does not "
            f"hold it ({error.str()}): it was truncated or created again; "
            "rebuild the view in an empty database with: milepost replay"
        )
    if code in (KafkaError._BAD_COMPRESSION, KafkaError._BAD_MSG):  # noqa: SLF001
        # librdkafka would fetch them again and again
        raise WrongLog(
            f"the records at offset {position} of partition {partition} of {topic} cannot be read ({error.str()}): they are "
            f"broken, or a batch that unfolds to more than {SETTINGS['receive.message.max.bytes']} bytes; nothing behind them "
            "is applied, lest they be lost; read them with another client, and see who sent them"
        )
    if code in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):  # noqa: SLF001
        raise WrongLog(f"the topic {topic} is gone; the view was left as it is")
    if error.fatal():
        raise KafkaUnavailable(f"Kafka ended the connection for good: {error.str()}")
    logger.info("kafka: partition %s: %s", partition, error.str())


def _shown(partitions: Iterable[int]) -> str:
    return ", ".join(str(partition) for partition in sorted(partitions)) or "none"
