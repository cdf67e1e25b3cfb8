"""Records of the log from given offsets on, undecoded: fast, and with bounds on what waits in memory whatever the log holds.

A client that is a member of no group: it can be thrown away and made anew with other settings at any time.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from milepost.consumer import kafka, statistics
from milepost.consumer.contact import Contact
from milepost.consumer.log_errors import MOST_UNFOLDED, position_error
from milepost.consumer.records import RawRecord, taken
from milepost.consumer.unfolding import Unfolding
from milepost.schemas import KafkaUnavailable

logger = logging.getLogger(__name__)

SETTINGS: Final[Mapping[str, str | int | bool]] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    # a position outside the log means another log or lost records: never jump, say so
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    # the default of 1000 makes a full queue wait a second: a third of the speed (docs/performance.md)
    "fetch.queue.backoff.ms": 2,
    "queued.max.messages.kbytes": 16_384,
    "message.max.bytes": 1_000,  # fetch.max.bytes is never below it
    "receive.message.max.bytes": MOST_UNFOLDED,
}

# What a fetch brings is all unfolded before anything is looked at. A batch larger than the limit comes all the same, alone.
SMALL_BITES: Final[Mapping[str, str | int | bool]] = {
    "fetch.message.max.bytes": 4_096,
    "fetch.max.bytes": 4_096,
    # the limit of the queue counts no headers, and a record may have 16 MiB of them
    "queued.min.messages": 8,
    "statistics.interval.ms": 200,
}
LARGE_BITES: Final[Mapping[str, str | int | bool]] = {
    "fetch.message.max.bytes": 262_144,
    "fetch.max.bytes": 1_048_576,
    "queued.min.messages": 2_000,
    "statistics.interval.ms": 1_000,
}

STEP: Final = 4
"""How many records are taken from librdkafka at once, each of which may have 17 MiB, while bites are small."""
_LARGE_STEP: Final = 50
_HEAVY_BYTES: Final = 262_144
"""Of key and headers, which Kafka's client leaves out of what it counts: a log with such records is read in small bites."""
_CLOSE_SECONDS: Final = 5.0


class Fetched(msgspec.Struct):
    """What one call gave."""

    records: list[RawRecord]
    skips: dict[int, int]
    """Partitions that go on behind what is here, by markers of transactions or records that were not asked for: where."""
    count: int = 0
    """How much librdkafka gave: 0 when nothing more has arrived."""


class Fetcher:
    """Reads some partitions of a topic. Not for several threads."""

    def __init__(
        self, servers: str, topic: str, client: str, on_error: Callable[[KafkaError], None] = kafka.log_error
    ) -> None:
        """`on_error` is told what librdkafka mends by itself."""
        self._on_error = on_error
        self._servers = servers
        self._topic = topic
        self._client = client
        self.next: dict[int, int] = {}
        """The partitions that are read, and the next offset of each."""
        self._large = self._has_heavy = False
        self._consumer = self._open()

    def assign(self, positions: Mapping[int, int]) -> None:
        """Read these partitions from these offsets on, and no others."""
        self.next = dict(positions)
        self._assign()

    def drop(self, partition: int) -> None:
        """Read a partition no longer."""
        if self.next.pop(partition, None) is not None:
            self._consumer.incremental_unassign([TopicPartition(self._topic, partition)])

    def fetch(self, limit: int, seconds: float = 0) -> Fetched:
        """Wait so long for a record, then take what is there with it, at most so many and never many large ones.

        Raises `WrongLog` when a position lies outside the log, `KafkaUnavailable` for what librdkafka gives up.
        """
        fetched = Fetched([], {})
        try:
            if seconds > 0:
                first = self._consumer.poll(seconds)
                messages = [first] if first is not None else []
            else:
                # consume() waits for all that it is asked for with any timeout but zero
                messages = self._consumer.consume(min(limit, _LARGE_STEP if self._large else STEP), 0)
        except KafkaException as error:
            raise KafkaUnavailable(f"Kafka: {kafka.reason(error)}") from error
        fetched.count = len(messages)
        for message in messages:
            self._take(message, fetched)
        # until it is known, things stay as they are
        if self._unfolding.is_mild is not None and self._large != (self._unfolding.is_mild and not self._has_heavy):
            self._large = not self._large
            self._reopen(f"in {'large' if self._large else 'small'} bites")
        elif self._contact.is_lost and self.next:
            self._reopen("by a new client, since the last one knows no broker any more")
        return fetched

    def close(self) -> None:
        """Close the connections. A broker that does not answer holds nobody up for long."""
        closing = self._closing()
        closing.join(_CLOSE_SECONDS)

    def _take(self, message: Message, fetched: Fetched) -> None:
        partition, offset = message.partition(), message.offset()
        if (error := message.error()) is not None:
            self._take_error(error, partition, offset, fetched)
        elif partition in self.next and offset is not None and offset >= self.next[partition]:
            self.next[partition] = offset + 1
            raw = taken(message)
            fetched.records.append(raw)
            if raw.weight - len(raw.value or b"") > _HEAVY_BYTES:
                self._has_heavy = True
            fetched.skips.pop(partition, None)

    def _take_error(self, error: KafkaError, partition: int | None, offset: int | None, fetched: Fetched) -> None:
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
            if partition in self.next and offset is not None and offset > self.next[partition]:
                self.next[partition] = fetched.skips[partition] = offset
        elif partition is None or partition < 0 or partition in self.next:
            position_error(error, self._topic, partition, self.next.get(partition) if partition is not None else None)

    def _open(self) -> Consumer:
        unfolding, contact = self._unfolding, self._contact = Unfolding(), Contact()

        def see(told: str) -> None:
            # each client's own: one that is being closed still tells of what it was
            found = statistics.decode(told)
            unfolding.see(found)
            contact.see(found)

        options: dict[str, Any] = {
            **kafka.settings(self._servers, self._client),
            **SETTINGS,
            **(LARGE_BITES if self._large else SMALL_BITES),
            # a name is required; as a member of no group it is never used
            "group.id": self._client,
            "error_cb": self._on_error,
            "stats_cb": see,
        }
        return Consumer(options)

    def _reopen(self, how: str) -> None:
        """What waits in librdkafka is thrown away and comes again."""
        self._closing()
        logger.debug("reading %s %s", self._topic, how)
        self._consumer = self._open()
        self._assign()

    def _assign(self) -> None:
        self._consumer.assign(
            [TopicPartition(self._topic, partition, offset) for partition, offset in self.next.items()]
        )

    def _closing(self) -> threading.Thread:
        closing = threading.Thread(target=self._consumer.close, name="milepost-close", daemon=True)
        closing.start()
        return closing
