"""The loop of one consumer process: read, apply, report; wait when a server is away; stop at a batch's end."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from milepost.consumer import kafka
from milepost.consumer.config import ConsumeConfig
from milepost.consumer.log import LogIdentity
from milepost.consumer.materializer import Applied, Materializer
from milepost.consumer.progress import caught_up
from milepost.consumer.reader import LogReader
from milepost.consumer.records import LogRecord, from_message
from milepost.consumer.watch import LogWatch, check_positions
from milepost.schemas import Fenced, Unavailable

logger = logging.getLogger(__name__)

_WAIT_SECONDS: Final = 0.5
_LONGEST_PAUSE_SECONDS: Final = 5.0
_CAUGHT_UP_SECONDS: Final = 0.1
_REPORT_SECONDS: Final = 10.0


class WorkerReport(msgspec.Struct):
    """What a worker did from its start to its end."""

    applied: Applied = msgspec.field(default_factory=lambda: Applied({}, 0, 0, 0))
    batches: int = 0
    fenced: int = 0

    @property
    def events(self) -> int:
        """Records that were taken from the log."""
        return sum(self.applied.outcomes.values()) + self.applied.quarantined


class Worker:
    """One consumer process."""

    def __init__(
        self,
        config: ConsumeConfig,
        log: LogIdentity,
        group: str,
        *,
        stop: Callable[[], bool],
        until: Mapping[int, int] | None = None,
    ) -> None:
        self._config = config
        self._log = log
        self._stop = stop
        self._until = until
        self._admin = kafka.admin(config.kafka)
        self._watch = LogWatch(self._admin, log)
        self._materializer = Materializer(config.database, config.topic)
        self._reader = LogReader(config.kafka, config.topic, group)
        self._report = WorkerReport()
        self._failures = 0
        self._next_check = 0.0
        self._last_line = (time.monotonic(), 0)

    def run(self) -> WorkerReport:
        """Consume until told to stop, or until the view has what was asked for.

        Raises `WrongLog` or `WrongView` for what no waiting mends.
        """
        try:
            while not self._stop() and not self._is_done():
                self._watch.tick()
                self._step()
        finally:
            self._reader.commit(self._materializer.positions, now=True)
            self._reader.close()
            self._materializer.close()
        return self._report

    def _step(self) -> None:
        try:
            if not self._reader.started and self._reader.assigned:
                self._start()
            if self._reader.started:
                self._materializer.sweep()
            seconds = 0 if self._materializer.is_sweeping else _WAIT_SECONDS
            chunk = self._reader.read(self._config.batch_events, self._config.batch_bytes, seconds)
            # each is decoded when its batch is cut, so that a stop waits for one batch and not for all that was read
            records = (from_message(message, self._log.partitions) for message in chunk.messages)
            for batch in batches(records, self._config.batch_bytes):
                self._report.applied += self._materializer.apply(batch)
                self._report.batches += 1
                if self._stop():
                    # the reader is ahead of what was applied
                    self._reader.hold()
                    return
            if chunk.skips:
                self._materializer.skip_to(chunk.skips)
        except Fenced as fenced:
            self._report.fenced += 1
            logger.warning("%s; reading its position again", fenced)
            self._reader.hold()
        except Unavailable as error:
            self._pause(error)
        else:
            if self._failures:
                logger.info("going on after %d failed attempts", self._failures)
                self._failures = 0
            self._reader.commit(self._materializer.positions)
            self._say()

    def _start(self) -> None:
        """Read the assigned partitions from where the view stands, having checked that the log holds it."""
        assigned = self._reader.assigned
        self._materializer.release(self._materializer.positions.keys() - assigned)
        positions = self._materializer.take(assigned)
        check_positions(self._admin, self._config.kafka, self._log, positions)
        if self._reader.assigned == assigned:
            self._reader.start(positions)

    def _pause(self, error: Unavailable) -> None:
        """Wait a growing while, still in the group. What was read is dropped: the stored position decides."""
        if not self._failures:
            logger.warning("%s; waiting until it is back", error)
        self._failures += 1
        self._reader.hold()
        end = time.monotonic() + min(0.1 * 2 ** min(self._failures - 1, 10), _LONGEST_PAUSE_SECONDS)
        while (left := end - time.monotonic()) > 0 and not self._stop():
            self._reader.idle(min(left, _WAIT_SECONDS))

    def _is_done(self) -> bool:
        if self._until is None or self._materializer.is_sweeping or time.monotonic() < self._next_check:
            return False
        ours = self._materializer.positions
        if any(offset < self._until.get(partition, 0) for partition, offset in ours.items()):
            return False
        self._next_check = time.monotonic() + _CAUGHT_UP_SECONDS
        try:
            return caught_up(self._materializer.connection(), self._until)
        except Unavailable as error:
            self._pause(error)
            return False

    def _say(self) -> None:
        then, events = self._last_line
        now = time.monotonic()
        if now - then >= _REPORT_SECONDS and self._report.events > events:
            rate = (self._report.events - events) / (now - then)
            logger.info("applied %d events, %.0f a second", self._report.events, rate)
            self._last_line = (now, self._report.events)


def batches(records: Iterable[LogRecord], largest: int) -> Iterator[Sequence[LogRecord]]:
    """Cut records into batches of at most so many bytes, keys and headers counted, in order; a larger record stands alone.

    A batch is given out before more than the next record is asked for.
    """
    batch: list[LogRecord] = []
    size = 0
    for record in records:
        weight = record.weight
        if batch and size + weight > largest:
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += weight
    if batch:
        yield batch
