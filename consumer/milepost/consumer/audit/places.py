"""All records in the order of the log: history and quarantine, and the log itself when it is read, side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import msgspec

from milepost.consumer.audit.against import AgainstLog
from milepost.consumer.audit.findings import ABSENT, PRESENT, Findings
from milepost.consumer.audit.partition import PartitionCheck, PartitionRow
from milepost.consumer.audit.publishers import publisher_key
from milepost.consumer.audit.quarantine import Quarantined, check_quarantined, number_of, quarantined
from milepost.consumer.audit.rows import FEW_AT_ONCE, PUBLISHER_ID, PlacedRows, Row, Stream, entry, fetch, read
from milepost.consumer.database import Connection
from milepost.consumer.records import LogRecord

_BEYOND: Final = 2**63
"""More than any offset."""


class Which(msgspec.Struct, frozen=True):
    """Whose records to verify."""

    partitions: Sequence[PartitionRow]
    known: Sequence[int]
    """All that the view has."""
    with_unknown: bool
    """Name the rows of others, too."""

    @property
    def parameters(self) -> list[object]:
        """What the statements need to know of it."""
        return [[row.partition for row in self.partitions], self.with_unknown, self.known]


class Places:
    """Verifies partition by partition, each from where `since` says."""

    def __init__(
        self,
        connection: Connection,
        findings: Findings,
        which: Which,
        since: Sequence[int],
        tell: Callable[[int], None],
        against: AgainstLog | None = None,
    ) -> None:
        self._connection = connection
        self._findings = findings
        self._which = which
        self._since = since
        self._tell = tell
        self._against = against
        self.rows: Counter[str] = Counter()
        """Rows of each table that were read."""
        self.valid_now = 0
        """Records in the quarantine that this version reads as events, and that were not retried."""
        statement = "places" if against is None else "places_whole"
        parameters = [list(since), *which.parameters]
        self._history = PlacedRows(fetch(connection, statement, parameters, tell=partial(self._count, "history")))
        kept = read(connection, "quarantine", parameters, FEW_AT_ONCE, partial(self._count, "quarantine"))
        self._quarantine = Stream(map(quarantined, kept))

    def run(self) -> None:
        """Read all of it once."""
        for row in self._which.partitions:
            self._skip_below(row.partition)
            check = PartitionCheck(row, self._findings)
            self._read(check)
            if not self._since[row.partition]:
                check.finish()
                check.publishers.compare(read(self._connection, "publishers", [row.partition]))
        self._skip_below(None)
        if not self._which.with_unknown:
            return
        for publisher_id, partition in read(self._connection, "publishers_elsewhere", [self._which.known]):
            expected = f"{ABSENT}: the view has no such partition"
            self._findings.add("publishers", publisher_key(publisher_id, partition), None, expected, PRESENT)

    def _read(self, check: PartitionCheck) -> None:
        """Walk through a partition, smallest offset first."""
        partition, against = check.row.partition, self._against
        log = against.open(check.row) if against is not None else None
        records = Stream(iter(log if log is not None else ()))
        while (offset := self._next_offset(partition, records.next)) is not None:
            if against is None and self._take_events(check):
                continue
            row, kept, record = self._history.next, self._quarantine.next, records.next
            row = self._history.take() if row is not None and row[:2] == (partition, offset) else None
            if kept is not None:
                is_here = kept.partition == partition and kept.offset == offset
                kept = self._quarantine.take() if is_here else None
            if record is not None:
                record = records.take() if record.offset == offset else None
            self._add(check, row, kept)
            if against is not None:
                against.at((partition, offset), entry(row) if row is not None else None, kept, record)
        check.flush()
        if against is not None and log is not None:
            against.close(check.row, log)

    def _take_events(self, check: PartitionCheck) -> bool:
        """The events up to the next quarantined record, without a look at anything else; whether there were any."""
        partition, kept = check.row.partition, self._quarantine.next
        limit = kept.offset if kept is not None and kept.partition == partition else _BEYOND
        is_any = False
        for rows in self._history.take_below((partition, limit)):
            check.add_events(rows)
            is_any = True
        return is_any

    def _next_offset(self, partition: int, record: LogRecord | None) -> int | None:
        """The smallest offset that anybody has next in the partition."""
        row, kept = self._history.next, self._quarantine.next
        offset = row[1] if row is not None and row[0] == partition else None
        if kept is not None and kept.partition == partition and (offset is None or kept.offset < offset):
            offset = kept.offset
        if record is not None and (offset is None or record.offset < offset):
            offset = record.offset
        return offset

    def _add(self, check: PartitionCheck, row: Row | None, kept: Quarantined | None) -> None:
        """What the view has at an offset: an event, or a record in the quarantine, or one that was retried, which is both."""
        if kept is not None:
            check.flush()
            if row is not None:
                check.add_unnumbered(row)
            self._add_quarantined(check, row, kept)
        elif row is not None:
            check.add_event(row)

    def _add_quarantined(self, check: PartitionCheck, row: Row | None, kept: Quarantined) -> None:
        check.check_offset("quarantine", kept.offset)
        record = kept.decoded(len(self._since))
        is_valid = check_quarantined(self._findings, kept, record, check.row.topic)
        if not kept.is_retried:
            self.valid_now += is_valid
            if row is not None:
                self._findings.add("quarantine", kept.name, "status", "retried, as history has the record", kept.status)
            else:
                check.add_quarantined(kept.log_time)
        elif row is None:
            self._findings.add("history", kept.name, None, f"{PRESENT}: the quarantine says retried", ABSENT)
        number = number_of(record)
        if number is None and row is not None and row[PUBLISHER_ID] is not None:
            check.publishers.add_uncertain(row[PUBLISHER_ID])
        check.publishers.add(number, kept.log_time)

    def _skip_below(self, partition: int | None) -> None:
        """Rows of partitions that the view does not have, before this one, or all that are left."""
        while (row := self._history.next) is not None and (partition is None or row[0] < partition):
            self._history.take()
            self._elsewhere("history", row[0], row[1])
        while (kept := self._quarantine.next) is not None and (partition is None or kept.partition < partition):
            self._quarantine.take()
            self._elsewhere("quarantine", kept.partition, kept.offset)

    def _elsewhere(self, table: str, partition: int, offset: int) -> None:
        key = {"partition": str(partition), "offset": str(offset)}
        self._findings.add(table, key, "partition", "a partition of the view", partition)

    def _count(self, table: str, more: int) -> None:
        self.rows[table] += more
        self._tell(more)
