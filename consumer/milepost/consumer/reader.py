"""The Kafka side of a consumer: group membership, and reading from the positions that the view holds.

Two clients: a member of the group, which reads nothing, and one that reads what the member was assigned. So the group's own
offsets are never read (they are committed so that lag tools show something), and how the log is read can change without a
rebalance.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from milepost.consumer import kafka
from milepost.consumer.config import ConsumeConfig
from milepost.consumer.fetcher import Fetcher
from milepost.consumer.intake import Batch, Intake
from milepost.consumer.log_errors import position_error

logger = logging.getLogger(__name__)

_COMMIT_SECONDS: Final = 5.0
_LEAVE_SECONDS: Final = 5.0
SETTINGS: Final[Mapping[str, str | int | bool]] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "partition.assignment.strategy": "range",
    "session.timeout.ms": 10_000,
    "heartbeat.interval.ms": 3_000,
}
"""Of the group's member."""


class LogReader:
    """A member of the view's consumer group. Not for several threads."""

    def __init__(
        self,
        config: ConsumeConfig,
        group: str,
        partitions: int,
        on_error: Callable[[KafkaError], None] = kafka.log_error,
    ) -> None:
        """`partitions`: how many the log has; `on_error` is told what librdkafka mends by itself."""
        self._topic = config.topic
        options: dict[str, Any] = {
            **kafka.settings(config.kafka, "milepost-consumer"),
            **SETTINGS,
            "group.id": group,
            "error_cb": on_error,
        }
        self._member = Consumer(options)
        self._fetcher = Fetcher(config.kafka, config.topic, "milepost-consumer", on_error)
        self._intake = Intake(self._fetcher.fetch, partitions, config.batch_events, config.batch_bytes, full=1)
        self._uncommitted: dict[int, int] = {}
        self._last_commit = time.monotonic()
        self.assigned: frozenset[int] = frozenset()
        self._leaving = False
        self.started = False
        """Whether the assigned partitions are being read; false from a rebalance until `start`."""
        self.joined = False
        """Whether the group has given us a share, be it an empty one."""
        self.assignments = 0
        """How often it did."""
        self._member.subscribe(
            [config.topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke
        )

    def start(self, positions: Mapping[int, int]) -> None:
        """Read these of the assigned partitions from these offsets on."""
        self._intake.clear()
        self._fetcher.assign(positions)
        self.started = True

    def hold(self) -> None:
        """Stop reading, but stay in the group."""
        self.started = False
        self._intake.clear()
        self._fetcher.assign({})

    def batch(self, seconds: float) -> Batch:
        """The next batch; waits so long for a record, or for partitions. Serves rebalances first.

        Raises `WrongLog` when a position lies outside the log, `KafkaUnavailable` when the group refuses us for good.
        """
        self._serve(0 if self.started else seconds)
        return self._intake.batch(seconds) if self.started else Batch([], {})

    def ahead(self) -> bool:
        """Do a piece of the next batch while something else is waited for; whether there was one. Raises nothing."""
        return self.started and self._intake.ahead()

    def idle(self, seconds: float) -> None:
        """Wait while staying in the group; what arrives is dropped, since `start` reads it again."""
        limit = time.monotonic() + seconds
        while (left := limit - time.monotonic()) > 0:
            self._serve(left)

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
                self._member.commit(offsets=offsets, asynchronous=True)
        except KafkaException as error:
            logger.debug("the group's offsets were not committed: %s", kafka.reason(error))

    def close(self) -> None:
        """Leave the group. A broker that does not answer holds nobody up for long: it will find out by itself."""
        self._leaving = True
        leaving = threading.Thread(target=self._leave, name="milepost-leave", daemon=True)
        leaving.start()
        self._fetcher.close()
        leaving.join(_LEAVE_SECONDS)

    def _leave(self) -> None:
        try:
            self._member.close()
        except Exception:
            # a client that is only just beginning may fail in its callbacks; the group finds out that we are gone
            logger.debug("the group was not left in order", exc_info=True)

    def _serve(self, seconds: float) -> None:
        """Let librdkafka call us on rebalances. The member reads nothing: a message is an error of the group, or of the topic."""
        message = self._member.poll(seconds)
        if message is not None and (error := message.error()) is not None:
            position_error(error, self._topic, message.partition(), None)

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.assigned = frozenset(partition.partition for partition in partitions)
        self.joined = True
        self.assignments += 1
        # nothing is read until the view has said where to start, and then not by the member
        self.hold()
        consumer.assign([])
        logger.info("assigned partitions %s", _shown(self.assigned), extra={"event": "assigned", "topic": self._topic})

    def _on_revoke(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        gone = _shown(partition.partition for partition in partitions)
        logger.info("gave up partitions %s", gone, extra={"event": "gave_up", "topic": self._topic})
        self.assigned = frozenset()
        self.joined = False
        if not self._leaving:  # then it is another thread that calls us
            self.hold()


def _shown(partitions: Iterable[int]) -> str:
    return ", ".join(str(partition) for partition in sorted(partitions)) or "none"
