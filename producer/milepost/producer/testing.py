"""For the tests of who publishes: a publisher into memory, with the rules of the real one."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from milepost.producer.client import CheckpointPublisher
from milepost.producer.config import DEFAULT_QUEUE_BYTES, DEFAULT_SOURCE, Value
from milepost.producer.delivery.carrier import Carrier
from milepost.producer.delivery.outbox import Outbox
from milepost.producer.delivery.parcel import Parcel
from milepost.producer.spool.settings import Spool
from milepost.schemas import DEFAULT_TOPIC, DeliveryFailed, Position
from milepost.schemas.partitioning import partition_of
from milepost.schemas.wire import DEFAULT_PARTITIONS, Headers

__all__ = ["MemoryPublisher", "MemoryRecord"]


class MemoryRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record as the log would hold it."""

    position: Position
    key: bytes
    value: bytes | None
    headers: Headers
    timestamp: int
    """When the log took it, milliseconds since 1970 UTC; never earlier than the record before."""


class MemoryPublisher(CheckpointPublisher):
    """A `CheckpointPublisher` whose log is a list: it needs no Kafka, and an event is delivered when `publish` returns.

    Everything else is the real one's: what it refuses, the records it makes, which partition a session goes to, the
    numbers, the bound of the queue, what happens to events that fail. `stall` is an outage, `fail_next` a refusal.
    """

    def __init__(
        self,
        bootstrap_servers: str = "memory",
        *,
        topic: str = DEFAULT_TOPIC,
        source: str = DEFAULT_SOURCE,
        spool: str | os.PathLike[str] | Spool | None = None,
        on_failure: Callable[[DeliveryFailed], object] | None = None,
        queue_bytes: int = DEFAULT_QUEUE_BYTES,
        kafka: Mapping[str, Value] | None = None,
        partitions: int = DEFAULT_PARTITIONS,
    ) -> None:
        """Takes what the real one takes, and checks it as well; `partitions` is how many the topic would have."""
        self._log = _Log(topic, source, partitions)
        super().__init__(
            bootstrap_servers,
            topic=topic,
            source=source,
            spool=spool,
            on_failure=on_failure,
            queue_bytes=queue_bytes,
            kafka=kafka,
        )

    @property
    def records(self) -> list[MemoryRecord]:
        """What the log holds, in the order in which it took it: a copy."""
        return list(self._log.records)

    def stall(self) -> None:
        """Let events wait, as when Kafka is away."""
        self._log.stalled = True

    def resume(self) -> None:
        """End the stall: what waits is delivered before this returns."""
        self._log.stalled = False
        self._courier.wake()

    def fail_next(self, reason: str, count: int = 1) -> None:
        """Let the log refuse the next `count` events, for a reason as librdkafka names it."""
        self._log.refusals.extend([reason] * count)

    def _carrier(self, outbox: Outbox) -> Carrier:
        return _MemoryCarrier(outbox, self._log)


class _Log:
    def __init__(self, topic: str, source: str, partitions: int) -> None:
        self.topic: Final = topic
        self.source: Final = source
        self.partitions: Final = partitions
        self.records: Final[list[MemoryRecord]] = []
        self.ends: Final[Counter[int]] = Counter()
        self.refusals: Final[deque[str]] = deque()
        self.stalled = False

    def append(self, parcel: Parcel) -> Position:
        record = parcel.record(self.source)
        partition = partition_of(record.key, self.partitions)
        position = Position(self.topic, partition, self.ends[partition])
        self.ends[partition] += 1
        headers = tuple((name, text.encode() if isinstance(text, str) else text) for name, text in record.headers)
        timestamp = max(time.time_ns() // 1_000_000, self.records[-1].timestamp if self.records else 0)
        self.records.append(
            MemoryRecord(position=position, key=record.key, value=record.value, headers=headers, timestamp=timestamp)
        )
        return position


class _MemoryCarrier:
    """Delivers in the thread that publishes."""

    asleep: Final = True
    started: Final = True

    def __init__(self, outbox: Outbox, log: _Log) -> None:
        self._outbox: Final = outbox
        self._log: Final = log
        self._settled: Final = threading.Condition(threading.RLock())

    def start(self) -> None:
        """It has no thread."""

    def wake(self) -> None:
        with self._settled:
            self._outbox.tidy()
            while not self._log.stalled and (parcel := self._outbox.next_to_send()) is not None:
                if self._log.refusals:
                    self._outbox.fail(parcel, self._log.refusals.popleft(), "refused, as the test has asked for")
                else:
                    self._outbox.deliver(parcel, self._log.append(parcel))
            self._outbox.tidy()
            self._settled.notify_all()

    def flush(self, timeout: float) -> bool:
        with self._settled:
            return self._settled.wait_for(self._outbox.idle, timeout)

    def stop(self, deadline: float | None) -> None:
        """It ends with each event."""

    def conclude(self, deadline: float) -> None:
        self.flush(max(deadline - time.monotonic(), 0.0))
        self._outbox.fail_rest()
        self._outbox.release()
        self._outbox.reporter.finish()
        self._outbox.reporter.join(max(deadline - time.monotonic(), 0.0) + 0.5)
