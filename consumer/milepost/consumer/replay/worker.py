"""One process of a replay: its partitions from where the target stands to the end, then the states that survived."""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import msgspec

from milepost.consumer.config import ConsumeConfig
from milepost.consumer.fetcher import Fetched
from milepost.consumer.intake import Intake
from milepost.consumer.integrity.keys import keyring
from milepost.consumer.isolation import PartitionsFailed
from milepost.consumer.materializer import Applied
from milepost.consumer.overlap import nothing
from milepost.consumer.records import RawRecord
from milepost.consumer.replay.rebuild import Rebuilder
from milepost.consumer.replay.restore import restore
from milepost.consumer.replay.scan import Scan
from milepost.consumer.replay.shelf import Shelf
from milepost.consumer.silence import Patience
from milepost.schemas import DatabaseUnavailable, MilepostError

logger = logging.getLogger(__name__)

_WAIT_SECONDS: Final = 0.5
_TELL_SECONDS: Final = 0.5


class Share(msgspec.Struct, frozen=True):
    """What one process does of a replay."""

    config: ConsumeConfig
    end: Mapping[int, int]
    """Its partitions, and where each ends."""
    partitions: int
    """How many the log has."""
    is_resumed: bool
    begin: Mapping[int, int] = msgspec.field(default_factory=dict)
    """Where partitions begin that lost their beginning."""
    key: bytes | None = None
    """Take records with this key alone; one that ends in a slash stands for all that begin with it."""

    def wants(self, key: bytes) -> bool:
        """Whether a record with this key belongs to the part that was asked for."""
        if self.key is None:
            return True
        return key.startswith(self.key) if self.key.endswith(b"/") else key == self.key


class Progress(msgspec.Struct):
    """How far a process is, since its start."""

    events: int = 0
    state_bytes: int = 0
    left: int = 0
    """Records to go."""
    written: int = 0
    """States written."""
    applied: Applied = msgspec.field(default_factory=lambda: Applied({}, 0, 0, 0))


class ReplayWorker:
    """Runs a share. Whenever it is killed, a new one goes on from what was committed."""

    def __init__(self, share: Share, *, stop: Callable[[], bool], tell: Callable[[Progress], None]) -> None:
        self._share = share
        self._stop = stop
        self._tell = tell
        self._shelf = Shelf()
        self._rebuilder = Rebuilder(
            share.config.database, share.config.topic, self._shelf, keyring(share.config.integrity_keys)
        )
        self._rebuilder.silence = Patience(stop, _say_silence())
        self._progress = Progress()
        self._told = 0.0

    def run(self) -> bool:
        """Run to the end, or until told to stop; whether it came to the end.

        Raises `WrongLog`, `KafkaUnavailable`, `DatabaseUnavailable`: the target stays resumable.
        """
        # what lives long here lives for the whole run; a collection would look at all of it again and again
        gc.freeze()
        gc.disable()
        try:
            start = self._rebuilder.take(self._share.end)
            lost = {p: offset for p, offset in self._share.begin.items() if start.get(p, offset) < offset}
            if lost:
                self._rebuilder.skip_to(lost)
                start |= lost
            if not self._read(start):
                return False
            self._rebuilder.finish()
            if self._share.is_resumed or self._shelf.forgotten or any(start.values()):
                restore(self._share.config, self._rebuilder, list(self._share.end), self._stop)
            self._say(0)
        except DatabaseUnavailable:
            # who was told to stop does not wait for an answer that does not come
            if not self._stop():
                raise
        finally:
            self._rebuilder.close()
        return not self._stop()

    def _read(self, start: Mapping[int, int]) -> bool:
        config, end = self._share.config, self._share.end
        scan = Scan(config.kafka, config.topic, start, end)
        intake = Intake(partial(self._fetch, scan), self._share.partitions, config.batch_events, config.batch_bytes)
        self._rebuilder.meanwhile = intake.ahead
        try:
            while not (scan.is_done and intake.is_empty):
                if self._stop():
                    return False
                try:
                    batch = intake.batch(_WAIT_SECONDS)
                except PartitionsFailed as failed:
                    raise MilepostError(f"{failed} (at offset {failed.offset}); the target stays as it is") from failed
                if batch.records:
                    applied = self._rebuilder.apply(batch.records)
                    self._progress.applied += applied
                    self._progress.events += len(batch.records)
                    self._progress.state_bytes += applied.state_bytes
                if batch.skips:
                    self._rebuilder.skip_to(batch.skips)
                self._say(_TELL_SECONDS)
        finally:
            self._rebuilder.meanwhile = nothing
            scan.close()
        return True

    def _fetch(self, scan: Scan, limit: int, seconds: float) -> Fetched:
        """What is wanted of what is there; over the rest the position moves on."""
        fetched = scan.fetch(limit, seconds)
        if self._share.key is not None:
            wanted: list[RawRecord] = []
            skips: dict[int, int] = {}
            for raw in fetched.records:
                if self._share.wants(raw.key or b""):
                    wanted.append(raw)
                    skips.pop(raw.partition, None)
                else:
                    skips[raw.partition] = raw.offset + 1
            fetched.records, fetched.skips = wanted, skips | fetched.skips
        return fetched

    def _say(self, at_least: float) -> None:
        now = time.monotonic()
        if now - self._told >= at_least:
            self._told = now
            positions = self._rebuilder.positions
            self._progress.left = sum(max(end - positions[p], 0) for p, end in self._share.end.items())
            self._progress.written = self._rebuilder.written
            self._tell(self._progress)


def _say_silence() -> Callable[[float], None]:
    """Says once that Postgres takes long."""
    said = False

    def say(seconds: float) -> None:
        nonlocal said
        if not said:
            logger.warning(
                "Postgres has not answered for %.0f s, though it is still connected; waiting for it", seconds
            )
        said = True

    return say
