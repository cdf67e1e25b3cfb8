"""Partitions of the log, read one after the other, with their running digest."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from milepost.consumer.chain import START, extend_partition
from milepost.consumer.log import LogIdentity
from milepost.consumer.records import LogRecord, RawRecord, decoded
from milepost.consumer.replay.scan import Scan
from milepost.schemas import KafkaUnavailable

_AT_ONCE: Final = 1_000
_WAIT_SECONDS: Final = 0.5
_SILENCE_SECONDS: Final = 60.0


class AuditedLog(msgspec.Struct, frozen=True):
    """The log that a view is verified against."""

    servers: str
    identity: LogIdentity
    beginnings: dict[int, int]
    ends: dict[int, int]
    key: bytes | None = None
    """The view holds records with this key alone; one that ends in a slash stands for all that begin with it."""

    def wants(self, key: bytes) -> bool:
        """Whether a record with this key belongs to the part of the log that the view holds."""
        if self.key is None:
            return True
        return key.startswith(self.key) if self.key.endswith(b"/") else key == self.key


class PartitionLog:
    """The records of one partition from `start` up to `end`, in order, read once."""

    def __init__(
        self,
        log: AuditedLog,
        partition: int,
        start: int,
        end: int,
        marks: Iterable[int] = (),
        tell: Callable[[int], None] | None = None,
    ) -> None:
        self._log = log
        self._partition = partition
        self._start, self._end = start, end
        self._marks = sorted(mark for mark in marks if start <= mark <= end)
        self._tell = tell
        self.records = 0
        """How many were read."""
        self.digest = START
        """Of all records read; the partition's own when it was read from its beginning."""
        self.digests: dict[int, bytes] = {}
        """By offset, for each mark: of all records below it."""

    def __iter__(self) -> Iterator[LogRecord]:
        for raw in self._raw():
            self._pass(raw.offset)
            record = decoded(raw, self._log.identity.partitions)
            if self._log.wants(raw.key or b""):
                self.digest = extend_partition(self.digest, record)
                self.records += 1
                yield record
        self._pass(self._end)

    def read_digests(self) -> dict[int, bytes]:
        """Read all of it for the digests at the marks alone."""
        for _ in self:
            pass
        return self.digests

    def _pass(self, offset: int) -> None:
        while self._marks and self._marks[0] <= offset:
            self.digests[self._marks.pop(0)] = self.digest

    def _raw(self) -> Iterator[RawRecord]:
        if self._start >= self._end:
            return
        log = self._log
        scan = Scan(log.servers, log.identity.topic, {self._partition: self._start}, {self._partition: self._end})
        heard = time.monotonic()
        try:
            while not scan.is_done:
                fetched = scan.fetch(_AT_ONCE, 0)
                if not fetched.count:
                    fetched = scan.fetch(_AT_ONCE, _WAIT_SECONDS)
                if fetched.count:
                    heard = time.monotonic()
                elif time.monotonic() - heard > _SILENCE_SECONDS:
                    raise KafkaUnavailable(f"Kafka at {log.servers} gave no record for {_SILENCE_SECONDS:g} s")
                if self._tell is not None:
                    self._tell(len(fetched.records))
                yield from fetched.records
        finally:
            scan.close()
