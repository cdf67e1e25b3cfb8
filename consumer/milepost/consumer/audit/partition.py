"""One partition: its totals, its positions and its publishers are those of its records in history and quarantine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from operator import lt
from typing import Any, Final

import msgspec

from milepost.consumer import queries
from milepost.consumer.audit.findings import ABSENT, PRESENT, Findings, Key
from milepost.consumer.audit.publishers import Publishers
from milepost.consumer.audit.rows import (
    AT_ONCE,
    LOG_TIME,
    NARROW,
    OFFSET,
    OUTCOME,
    PUBLISHER_ID,
    PUBLISHER_SEQ,
    SIZE,
    SOURCE,
    Row,
)
from milepost.consumer.database import Connection
from milepost.consumer.integrity.facts import EPOCH, moment
from milepost.consumer.log import LogIdentity

_TOTALS: Final = {"applied": "applied", "duplicate": "duplicates", "stale": "stale", "conflict": "conflicts"}
"""The total that counts each outcome."""


class PartitionRow(msgspec.Struct, frozen=True):
    """A row of partitions. Times are microseconds since 1970 UTC."""

    partition: int
    cluster_id: str
    topic: str
    topic_id: str
    next_offset: int
    log_time: int | None
    events: int
    applied: int
    duplicates: int
    stale: int
    conflicts: int
    quarantined: int
    state_bytes: int
    retention_version: int
    digest: bytes

    @property
    def key(self) -> Key:
        """What names the row."""
        return {"partition": str(self.partition)}


def read_partitions(connection: Connection) -> list[PartitionRow]:
    """The partitions of a view, by number."""
    rows = connection.execute(queries.load("audit")["partitions"], binary=True)
    return [_row(list(row)) for row in rows]


def _row(columns: list[Any]) -> PartitionRow:
    columns[5] = moment(columns[5]) if columns[5] is not None else None
    return PartitionRow(*columns)


def count_of(partitions: Sequence[PartitionRow]) -> int:
    """How many partitions the log has, by the view's rows, of which some may be missing or have a wrong number.

    A number twice as high as there are rows, or a negative one, is taken for a wrong one.
    """
    limit = 2 * len(partitions)
    return max((row.partition + 1 for row in partitions if 0 <= row.partition < limit), default=0)


def check_identity(findings: Findings, partitions: Sequence[PartitionRow], log: LogIdentity) -> None:
    """Whether all partitions are of one log, and none is missing or has a number that the log has not."""
    for row in partitions:
        for field in ("cluster_id", "topic", "topic_id"):
            findings.compare("partitions", row.key, field, getattr(log, field), getattr(row, field))
        if not 0 <= row.partition < log.partitions:
            findings.add("partitions", row.key, "partition", f"0 to {log.partitions - 1}", row.partition)
    there = {row.partition for row in partitions}
    for number in range(log.partitions):
        if number not in there:
            findings.add("partitions", {"partition": str(number)}, None, PRESENT, ABSENT)


class PartitionCheck:
    """Feed it what stands at each offset, in order; then `finish`."""

    def __init__(self, row: PartitionRow, findings: Findings) -> None:
        self.row = row
        self.publishers = Publishers(row.partition, findings)
        self._findings = findings
        self._totals = dict.fromkeys(("events", *_TOTALS.values(), "quarantined", "state_bytes"), 0)
        self._offset = -1
        self._log_time: int | None = None
        self._waiting: list[Row] = []

    def add_event(self, row: Row) -> None:
        """A row of history; looked at with the ones that follow, or by `flush`."""
        self._waiting.append(row)
        if len(self._waiting) >= AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Look at the rows that wait. To be called before anything else than a row is added, and at the end."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self.add_events(waiting)

    def add_events(self, rows: Sequence[Row]) -> None:
        """Rows of history that follow each other."""
        columns = list(zip(*(row[:NARROW] for row in rows), strict=True))
        offsets = columns[OFFSET]
        if self._offset < offsets[0] and offsets[-1] < self.row.next_offset and all(map(lt, offsets, offsets[1:])):
            totals = self._totals
            totals["events"] += len(rows)
            for outcome, number in Counter(columns[OUTCOME]).items():
                totals[_TOTALS[outcome]] += number
            totals["state_bytes"] += sum(columns[SIZE])
            self._offset, self._log_time = offsets[-1], columns[LOG_TIME][-1] + EPOCH
        else:
            for row in rows:
                self.add_unnumbered(row)
        numbers = zip(columns[PUBLISHER_ID], columns[PUBLISHER_SEQ], columns[SOURCE], columns[LOG_TIME], strict=True)
        self.publishers.add_events(numbers)

    def add_unnumbered(self, row: Row) -> None:
        """A row of history, without its number; that of one that was in the quarantine is read there."""
        offset = row[OFFSET]
        if offset >= self.row.next_offset:
            self.check_offset("history", offset)
        if offset == self._offset:
            key = {**self.row.key, "offset": str(offset)}
            self._findings.add("history", key, "offset", "one event at each offset", "several")
        totals = self._totals
        totals["events"] += 1
        totals[_TOTALS[row[OUTCOME]]] += 1
        totals["state_bytes"] += row[SIZE]
        self._offset, self._log_time = offset, row[LOG_TIME] + EPOCH

    def add_quarantined(self, log_time: int) -> None:
        """A row of the quarantine that was not retried."""
        self._totals["events"] += 1
        self._totals["quarantined"] += 1
        self._log_time = log_time

    def check_offset(self, table: str, offset: int) -> None:
        """Whether a row's offset is one that the view has reached."""
        if offset >= self.row.next_offset:
            key = {**self.row.key, "offset": str(offset)}
            self._findings.add(table, key, "offset", f"less than {self.row.next_offset}, the next offset", offset)

    def finish(self) -> None:
        """Compare the totals. Only when all of the partition was seen."""
        for field, expected in self._totals.items():
            self._findings.compare("partitions", self.row.key, field, expected, getattr(self.row, field))
        self._findings.compare("partitions", self.row.key, "log_time", self._log_time, self.row.log_time)
