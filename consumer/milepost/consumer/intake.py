"""The next batches, made ready piece by piece: read and decoded while Postgres is busy with the one before.

One thread does both: `overlap` calls us wherever it would wait for Postgres.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec

from milepost.consumer.fetcher import Fetched
from milepost.consumer.isolation import PartitionsFailed
from milepost.consumer.records import LogRecord, RawRecord, decoded

_PIECE_BYTES: Final = 32_768
"""About how much is decoded before somebody looks at Postgres again."""

Fetch = Callable[[int, float], Fetched]
"""Called with how many records are wanted, and how many seconds to wait for the first."""


class Batch(msgspec.Struct):
    """Records to apply together, in log order."""

    records: list[LogRecord]
    skips: dict[int, int]
    """Where partitions go on that have markers of transactions behind these records."""


class Intake:
    """Cuts the log into batches of at most `events` records and `size` bytes; a larger record stands alone."""

    def __init__(self, fetch: Fetch, partitions: int | None, events: int, size: int, *, full: int = 0) -> None:
        """`partitions`: how many the log has, as `from_parts` takes it.

        `full`: how many full batches may wait beside the one that is being filled, for who waits long for Postgres.
        """
        self._fetch = fetch
        self._partitions = partitions
        self._events = events
        self._size = size
        self._most_full = full
        self.clear()

    def clear(self) -> None:
        """Forget what was read: the positions have changed."""
        self._raw: deque[RawRecord] = deque()
        self._full: deque[list[LogRecord]] = deque()
        self._ready: list[LogRecord] = []
        self._weight = 0
        self._skips: dict[int, int] = {}
        self._seen = 0
        self._error: Exception | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing that was read waits for its batch."""
        return not (self._full or self._ready or self._raw or self._skips)

    def batch(self, seconds: float) -> Batch:
        """The next batch, of what has arrived by now; waits so long for a record when there is none.

        Raises what reading raises at once: what was read before it may come from another log. A record that cannot be decoded
        for a fault of ours is raised as `PartitionsFailed`, once everything before it is given out.
        """
        if not (self._full or self._ready or self._raw or self._error):
            self._read(self._events, seconds)
        while not self._full and self._fill():
            pass
        has_records = bool(self._full or self._ready)
        if (error := self._error) is not None and not (has_records and isinstance(error, PartitionsFailed)):
            self.clear()
            raise error
        if not self._full:
            self._end_batch()
        return Batch(self._full.popleft(), self._take_skips())

    def ahead(self) -> bool:
        """Do a piece of the next batches: decode a few records, or read some more. Never waits, raises nothing.

        False when they are full, or nothing more has arrived.
        """
        if self._fill():
            return True
        if self._is_full() and len(self._full) < self._most_full:
            self._end_batch()
            return True
        return False

    def _take_skips(self) -> dict[int, int]:
        """Those of partitions none of whose records waits, so that a busy one does not hold up a quiet one."""
        if not self._skips:
            return {}
        waiting = {record.partition for records in (*self._full, self._ready) for record in records}
        waiting |= {raw.partition for raw in self._raw}
        taken = {partition: offset for partition, offset in self._skips.items() if partition not in waiting}
        self._skips = {partition: offset for partition, offset in self._skips.items() if partition in waiting}
        return taken

    def _end_batch(self) -> None:
        self._full.append(self._ready)
        self._ready, self._weight, self._seen = [], 0, 0

    def _is_full(self) -> bool:
        ready, raw = self._ready, self._raw
        if not raw:
            # what was seen counts, too: not all of it need be wanted
            return max(len(ready), self._seen) >= self._events and bool(ready)
        return len(ready) >= self._events or bool(ready and self._weight + raw[0].weight > self._size)

    def _fill(self) -> bool:
        """Do a piece of the batch that is being filled; false when it is full, or nothing more has arrived."""
        if self._is_full() or isinstance(self._error, PartitionsFailed):
            return False
        if not self._raw:
            # a log of which little is wanted ends a batch, too: its position moves on
            left = self._events - max(len(self._ready), self._seen)
            return left > 0 and self._error is None and self._read(left, 0)
        return self._decode()

    def _decode(self) -> bool:
        """Decode the next records; whether there was room for one."""
        before, pause = len(self._ready), self._weight + _PIECE_BYTES
        while self._raw and self._weight < pause and not self._is_full():
            raw = self._raw[0]
            try:
                self._ready.append(decoded(raw, self._partitions))
            except Exception as error:  # noqa: BLE001 - a fault of ours: it is raised by `batch`, as one of this partition
                self._error = PartitionsFailed({raw.partition}, raw.offset)
                self._error.__cause__ = error
                break
            self._raw.popleft()
            self._weight += raw.weight
        return len(self._ready) > before

    def _read(self, limit: int, seconds: float) -> bool:
        try:
            fetched = self._fetch(limit, seconds)
        except Exception as error:  # noqa: BLE001 - whatever it is, `batch` raises it
            self._error = error
            return False
        self._seen += fetched.count
        self._raw.extend(fetched.records)
        for raw in fetched.records if self._skips else ():
            self._skips.pop(raw.partition, None)
        self._skips |= fetched.skips
        return fetched.count > 0
