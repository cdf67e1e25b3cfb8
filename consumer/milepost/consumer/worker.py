"""The loop of one consumer process: read, apply, report; wait when a server is away; stop at a batch's end."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from milepost.consumer import kafka
from milepost.consumer.collector import collect_rarely
from milepost.consumer.config import ConsumeConfig
from milepost.consumer.integrity.keys import keyring
from milepost.consumer.isolation import PATIENCE, Isolation, PartitionsFailed, is_of_partition, stopped_error
from milepost.consumer.log import LogIdentity
from milepost.consumer.materializer import Applied, Materializer
from milepost.consumer.observe import Observer
from milepost.consumer.outages import Outages
from milepost.consumer.progress import caught_up
from milepost.consumer.reader import LogReader
from milepost.consumer.records import LogRecord
from milepost.consumer.silence import Patience
from milepost.consumer.sweeping import Sweeping
from milepost.consumer.watch import LogWatch, check_positions
from milepost.schemas import Fenced, Unavailable

logger = logging.getLogger(__name__)

_WAIT_SECONDS: Final = 0.5
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
        observer: Observer | None = None,
    ) -> None:
        self._config = config
        self._observer = observer or Observer()
        self._log = log
        self._stop = stop
        self._until = until
        self._troubles = kafka.Troubles()
        self._admin = kafka.admin(config.kafka, self._troubles)
        self._watch = LogWatch(self._admin, log)
        self._reader = LogReader(config, group, log.partitions, self._troubles)
        self._materializer = Materializer(config.database, config.topic, keyring(config.integrity_keys))
        self._materializer.meanwhile = self._reader.ahead
        self._materializer.before_commit = self._watch.settle
        self._outages = Outages(self._observer)
        self._materializer.silence = Patience(stop, self._outages.silent, self._observer.passes)
        self._isolation = Isolation(config.topic, self._observer)
        self._sweeping = Sweeping(self._materializer, self._observer, is_patient=until is None)
        self._report = WorkerReport()
        self._next_check = 0.0
        self._last_line = (time.monotonic(), 0)

    def run(self) -> WorkerReport:
        """Consume until told to stop, or until the view has what was asked for.

        Raises `WrongLog` or `WrongView` for what no waiting mends, `MilepostError` when a partition is
        stopped and the end was asked for.
        """
        collect_rarely()
        try:
            while not self._stop() and not self._is_done():
                self._watch.tick()
                self._outages.watched(self._troubles.about(self._watch.trouble))
                self._step()
                self._observer.stands(self._materializer.positions, self._reader)
        finally:
            self._reader.commit(self._materializer.positions, now=True)
            self._reader.close()
            self._materializer.close()
        return self._report

    def _step(self) -> None:
        try:
            if self._isolation.is_due:
                self._reader.hold()
            if not self._reader.started and self._reader.assigned:
                self._start()
            if self._reader.started:
                self._sweeping.step(is_tried=self._outages.failures >= PATIENCE)
            batch = self._reader.batch(0 if self._sweeping.is_due else _WAIT_SECONDS)
            if batch.records:
                # after they were read; the answer comes while Postgres is at work, and is waited for before the COMMIT
                self._watch.doubt(record.offset for record in batch.records)
            for records in self._isolation.parts(batch.records):
                self._apply(records)
            if batch.skips:
                self._materializer.skip_to(batch.skips)
        except Fenced as fenced:
            self._report.fenced += 1
            self._observer.fenced()
            logger.warning("%s; reading its position again", fenced, extra={"event": "fenced"})
            self._reader.hold()
        except Unavailable as error:
            self._pause(error)
        except PartitionsFailed as failed:
            self._isolation.blame(failed, self._materializer.positions)
            self._reader.hold()
        else:
            if self._reader.started:
                self._outages.worked(is_applied=bool(batch.records))
            self._reader.commit(self._materializer.positions)
            self._say()

    def _apply(self, records: Sequence[LogRecord]) -> None:
        began = time.monotonic()
        try:
            applied = self._materializer.apply(records)
        except Exception as error:
            if not is_of_partition(error, is_tried=self._isolation.is_on or self._outages.failures >= PATIENCE):
                raise
            raise PartitionsFailed({record.partition for record in records}) from error
        self._report.applied += applied
        self._report.batches += 1
        self._observer.batch(applied, time.monotonic() - began)
        self._isolation.passed(records)

    def _start(self) -> None:
        """Read the assigned partitions from where the view stands, having checked that the log holds it."""
        assigned = self._reader.assigned
        self._materializer.release(self._materializer.positions.keys() - assigned)
        positions = self._materializer.take(assigned)
        check_positions(self._admin, self._config.kafka, self._log, positions)
        if self._reader.assigned == assigned:
            self._reader.start(self._isolation.startable(positions))

    def _pause(self, error: Unavailable) -> None:
        """Wait a growing while, still in the group. What was read is dropped: the stored position decides."""
        self._reader.hold()
        end = time.monotonic() + self._outages.failed(error)
        while (left := end - time.monotonic()) > 0 and not self._stop():
            self._reader.idle(min(left, _WAIT_SECONDS))
            self._observer.passes()

    def _is_done(self) -> bool:
        if self._until is None or self._materializer.is_sweeping or time.monotonic() < self._next_check:
            return False
        stopped = self._isolation.stopped
        behind = {p for p, offset in self._materializer.positions.items() if offset < self._until.get(p, 0)}
        if behind - stopped.keys():
            return False
        if behind:
            raise stopped_error({partition: stopped[partition] for partition in behind}, self._config.topic)
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
