"""Which checkpoints of a session must be live: worked out along its history, in memory that grows with what stays alone.

Retention takes a session's oldest first, all but the pinned ones. So what is live since the latest deletion is an unbroken end of
the created checkpoints, and pinned ones before it. How long that end is, the policies say: where the session was measured by them
as they are now, and for rows that were written under them.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import msgspec

from milepost.consumer.audit.rows import Entry
from milepost.consumer.retention import Policy

_MARGIN: Final = 60_000_000
"""Microseconds that a consumer may go on by the policies that it knew before a change."""
_NAMED: Final = 1_000
"""How many rows that the head does not know as removed are named; all are counted."""


class _Mark(msgspec.Struct, gc=False):
    """A checkpoint, and what came before it since the latest deletion."""

    entry: Entry
    count: int
    size: int


class _Gone(msgspec.Struct, gc=False):
    """One that has no row, was not pinned, and that the policy may keep."""

    seq: int
    count: int
    size: int
    log_time: int
    recorded_at: int


class LiveSet:
    """Feed it the applied checkpoints of a session, in order; each `add` says whether a row is missing there."""

    def __init__(
        self, policy: Policy, policies_changed: int | None, pruned_seq: int | None, *, is_measured: bool
    ) -> None:
        """`pruned_seq` is the head's, None without a head."""
        self._policy = policy
        self._head_pruned = pruned_seq
        self._changed = policies_changed
        self._is_measured = is_measured
        self.clear()

    def clear(self) -> None:
        """A deletion: nothing before it is live."""
        self.is_whole = True
        """Whether all since the latest deletion was added; to be set to false otherwise."""
        self.newest: Entry | None = None
        self.newest_live: int | None = None
        self._window: _Mark | None = None
        """The first live one that is not pinned."""
        self.pruned_seq = 0
        """Up to where retention has removed what is not pinned, by the rows there are."""
        self._gone: deque[_Gone] = deque()
        """Those gone that the policy keeps so far: never more than it keeps."""
        self.beyond: list[int] = []
        """Those gone beyond what the head says was pruned, the first ones."""
        self.beyond_count = 0
        self._count = self._size = 0
        self._latest_time = 0

    @property
    def window_seq(self) -> int | None:
        """The first live one that is not pinned."""
        return self._window.entry.seq if self._window is not None else None

    def add(self, entry: Entry, *, is_live: bool) -> bool:
        """Take the next one; whether its row is missing, whatever the policies."""
        is_missing = False
        if is_live:
            self.newest_live = entry.seq
            if self._window is None and not entry.event.pinned:
                self._window = _Mark(entry, self._count, self._size)
        elif self._window is not None or entry.event.pinned:
            is_missing = True
        else:
            self._add_gone(entry)
        self.newest = entry
        self._count += 1
        self._size += entry.event.stored_size
        if entry.log_time > self._latest_time:
            self._latest_time = entry.log_time
        gone = self._gone
        while gone and self._is_over(gone[0], gone[0].log_time, self._latest_time):
            gone.popleft()
        return is_missing

    def _add_gone(self, entry: Entry) -> None:
        self.pruned_seq = seq = entry.seq
        self._gone.append(_Gone(seq, self._count, self._size, entry.log_time, entry.recorded_at))
        if self._head_pruned is not None and seq > self._head_pruned:
            self.beyond_count += 1
            if len(self.beyond) < _NAMED:
                self.beyond.append(seq)

    def missing(self) -> list[int]:
        """Those that the policies keep, and that have no row: the newest, and others where that is decided."""
        newest, since = self.newest, self._changed
        return [
            gone.seq
            for gone in self._gone
            if (newest is not None and gone.seq == newest.seq) or since is None or gone.recorded_at >= since + _MARGIN
        ]

    def surplus(self) -> Entry | None:
        """One that the policies do not keep, and that has a row, where that is decided."""
        if self._window is None or self.newest is None or not (self._is_measured and self.is_whole):
            return None
        window = self._window
        return window.entry if self._is_over(window, window.entry.log_time, self.newest.log_time) else None

    def _is_over(self, mark: _Mark | _Gone, log_time: int, latest_time: int) -> bool:
        """Whether retention takes a checkpoint, from the number and the bytes of all from it on."""
        count, policy = self._count - mark.count, self._policy
        return count > 1 and (
            count > policy.newest
            or (policy.max_bytes is not None and self._size - mark.size > policy.max_bytes)
            or (policy.max_age is not None and log_time < latest_time - policy.max_age)
        )
