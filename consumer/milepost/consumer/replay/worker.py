"""One process of a replay: its partitions from where the target stands to the end, then the states that survived."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from confluent_kafka import Message

from milepost.consumer.config import ConsumeConfig
from milepost.consumer.materializer import Applied
from milepost.consumer.records import from_message
from milepost.consumer.replay.rebuild import Rebuilder
from milepost.consumer.replay.restore import restore
from milepost.consumer.replay.scan import Scan
from milepost.consumer.replay.shelf import Shelf
from milepost.consumer.worker import batches

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

    def wants(self, message: Message) -> bool:
        """Whether a record belongs to the part that was asked for."""
        if self.key is None:
            return True
        key = message.key() or b""
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
        self._rebuilder = Rebuilder(share.config.database, share.config.topic, self._shelf)
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
        finally:
            self._rebuilder.close()
        return not self._stop()

    def _read(self, start: Mapping[int, int]) -> bool:
        config, end = self._share.config, self._share.end
        scan = Scan(config.kafka, config.topic, start, end)
        try:
            while not scan.is_done:
                if self._stop():
                    return False
                messages, reached = scan.read(config.batch_events, _WAIT_SECONDS)
                wanted = [
                    from_message(message, self._share.partitions) for message in messages if self._share.wants(message)
                ]
                for batch in batches(wanted, config.batch_bytes):
                    self._progress.applied += self._rebuilder.apply(batch)
                    self._progress.events += len(batch)
                    self._progress.state_bytes += sum(record.size for record in batch)
                # over what is not wanted, and over markers of transactions
                behind = {p: to for p, to in reached.items() if self._rebuilder.positions[p] < to}
                if behind:
                    self._rebuilder.skip_to(behind)
                self._say(_TELL_SECONDS)
        finally:
            scan.close()
        return True

    def _say(self, at_least: float) -> None:
        now = time.monotonic()
        if now - self._told >= at_least:
            self._told = now
            positions = self._rebuilder.positions
            self._progress.left = sum(max(end - positions[p], 0) for p, end in self._share.end.items())
            self._progress.written = self._rebuilder.written
            self._tell(self._progress)
