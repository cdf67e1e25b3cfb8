"""The states of a replay that may survive, held back in memory until it is known that they do.

A state that a later event of its session prunes is never written. What does not fit is forgotten, the oldest first, since it is
the likeliest to be pruned; what of it survives is read from the log once more (`restore.py`).
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator
from typing import Final

from milepost.consumer.heads import SessionKey
from milepost.consumer.plan import HistoryRow, Plan, Removal
from milepost.consumer.records import LogRecord

HELD_BYTES: Final = 224 * 1024 * 1024
"""With what librdkafka holds and the rows of a batch, a process stays under 512 MB."""
_ROW_BYTES: Final = 2_000
"""About what a row costs beside its state."""


class Shelf:
    """Rows of `checkpoints` that are live so far."""

    def __init__(self, limit: int = HELD_BYTES) -> None:
        self._limit = limit
        self._rows: OrderedDict[tuple[SessionKey, int], HistoryRow] = OrderedDict()
        self._seqs: defaultdict[SessionKey, deque[int]] = defaultdict(deque)
        self._pinned: defaultdict[SessionKey, list[int]] = defaultdict(list)
        """Those that retention has passed by: only a deletion looks at them again."""
        self._bytes = 0
        self.forgotten = 0
        """Rows that did not fit; some of them may survive."""

    def __len__(self) -> int:
        return len(self._rows)

    def take(self, plan: Plan) -> None:
        """Take over what a committed plan inserts, and drop what it removes."""
        for key, removal in plan.removals.items():
            self._remove(key, removal)
        for (key, seq), row in plan.inserts.items():
            row.record = _lean(row.record)
            self._rows[key, seq] = row
            self._seqs[key].append(seq)
            self._bytes += row.event.size + _ROW_BYTES
        while self._bytes > self._limit and self._rows:
            (key, seq), _ = next(iter(self._rows.items()))
            self._drop(key, seq)
            self.forgotten += 1

    def drain(self) -> Iterator[HistoryRow]:
        """Give up the rows, oldest first."""
        while self._rows:
            _, row = self._rows.popitem(last=False)
            yield row
        self._seqs.clear()
        self._pinned.clear()
        self._bytes = 0

    def _remove(self, key: SessionKey, removal: Removal) -> None:
        """Drop what a removal covers: it takes a session's oldest, so that nothing newer is looked at."""
        low, high, all_of_them = removal.low, removal.high, removal.all_of_them
        seqs, rows = self._seqs.get(key), self._rows
        while seqs and seqs[0] <= high:
            seq = seqs.popleft()
            row = rows.get((key, seq))
            if row is not None and not all_of_them and row.event.pinned:
                self._pinned[key].append(seq)
            elif row is not None and seq > low:
                self._drop(key, seq)
        if all_of_them:
            for seq in self._pinned.pop(key, ()):
                if (key, seq) in rows:
                    self._drop(key, seq)

    def _drop(self, key: SessionKey, seq: int) -> None:
        row = self._rows.pop((key, seq))
        self._bytes -= row.event.size + _ROW_BYTES


def _lean(record: LogRecord) -> LogRecord:
    """Where a record stood, without what only the quarantine needs of it. A copy: the record is its reader's."""
    return LogRecord(record.partition, record.offset, record.log_time, None, None, (), None)
