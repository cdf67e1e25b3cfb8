"""Where an export's events stood in the log: no digest covers it, but a session's events stand in the log's order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from milepost.consumer.audit.export_rows import ExportedRow, shown_time

CLOCK_SLACK: Final = 60_000_000
"""Microseconds. Brokers stamp records with clocks of their own: a new leader's may be behind the one before."""


class Places:
    """Takes rows in the order of their seqs, and tells which of them cannot have stood where they say."""

    def __init__(self) -> None:
        self._next_offset = 0
        self._log_time: int | None = None

    def problems(self, row: ExportedRow) -> Iterator[str]:
        """What does not fit to the row before. Raises `ValueError` for a log time that is none."""
        if row.offset < self._next_offset:
            yield f"offset: expected {self._next_offset} or more, found {row.offset}"
        self._next_offset = max(row.offset, -1) + 1
        log_time = row.logged()
        if self._log_time is not None and log_time < self._log_time - CLOCK_SLACK:
            wanted = shown_time(self._log_time)
            yield f"log_time: expected {wanted} or later, but for the difference of two clocks, found {row.log_time}"
        self._log_time = log_time
