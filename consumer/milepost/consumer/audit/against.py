"""The view against the log, record by record: each has its row, no row is without its record, the digests are the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Final

from milepost.consumer.audit.findings import ABSENT, PRESENT, Findings, Key
from milepost.consumer.audit.log import AuditedLog, PartitionLog
from milepost.consumer.audit.partition import PartitionRow
from milepost.consumer.audit.quarantine import Quarantined, compare_quarantined
from milepost.consumer.audit.rows import Entry
from milepost.consumer.records import LogRecord
from milepost.schemas import Envelope

_FIELDS: Final = (*(name for name in Envelope.__struct_fields__ if name != "state"), "size")
_fields: Final = attrgetter(*_FIELDS)


class AgainstLog:
    """Compares what stands at each offset. Partitions are taken one after the other."""

    def __init__(
        self,
        findings: Findings,
        log: AuditedLog,
        since: Sequence[int],
        marks: Mapping[int, Iterable[int]],
        tell: Callable[[int], None],
    ) -> None:
        self._findings = findings
        self._log = log
        self._since = since
        self._marks = marks
        self._tell = tell
        self._begin = 0
        self._lost = False
        self.records = 0
        """Records of the log that were read."""
        self.digests: dict[tuple[int, int], bytes] = {}
        """By partition and offset, for each mark that was passed: of all records below it."""
        self.unchecked: list[str] = []
        """What the log could not tell."""

    def open(self, row: PartitionRow) -> PartitionLog:
        """Read a partition from its beginning, or from where it is to be verified, up to where the view stands."""
        partition, since = row.partition, self._since[row.partition]
        begin, end = self._log.beginnings.get(partition, 0), self._log.ends.get(partition, 0)
        self._begin = max(since, begin)
        self._lost = False
        if row.next_offset > end:
            self._findings.add(
                "partitions", row.key, "next_offset", f"at most {end}, where the log ends", row.next_offset
            )
        return PartitionLog(
            self._log,
            partition,
            self._begin,
            min(row.next_offset, end),
            self._marks.get(partition, ()) if not since else (),
            self._tell,
        )

    def at(
        self, place: tuple[int, int], entry: Entry | None, kept: Quarantined | None, record: LogRecord | None
    ) -> None:
        """What stands at one offset of the partition: in history, in the quarantine, in the log."""
        if record is None:
            self._without_record(place[1], entry, kept)
            return
        if kept is not None:
            compare_quarantined(self._findings, record, kept)
        if record.event is None:
            why = str(record.fault)
            if entry is not None:
                self._findings.add("history", entry.key, None, f"{ABSENT}: the record is no event ({why})", PRESENT)
            elif kept is None:
                self._findings.add("quarantine", _at(place), None, f"{PRESENT}: the record is no event ({why})", ABSENT)
        elif entry is not None:
            compare_event(self._findings, record.event, entry)
            if record.log_time != entry.log_time:
                self._findings.add("history", entry.key, "log_time", record.log_time, entry.log_time)
        elif kept is None:
            self._findings.add("history", {**_at(place), **_named(record.event)}, None, PRESENT, ABSENT)

    def close(self, row: PartitionRow, read: PartitionLog) -> None:
        """Compare the digest, when the partition was read from its beginning."""
        partition, since = row.partition, self._since[row.partition]
        self.records += read.records
        self.digests |= {(partition, offset): digest for offset, digest in read.digests.items()}
        begin = self._log.beginnings.get(partition, 0)
        if self._lost or 0 < since < begin:
            lost = f"records {since} to {begin - 1} of partition {partition} are gone from the log"
            self.unchecked.append(f"{lost}: their rows, and the partition's digest, cannot be compared")
        elif not since and self._log.key is None:
            # a view that was built from a log without its beginning has the digest of what was left
            self._findings.compare("partitions", row.key, "digest", read.digest, row.digest)

    def _without_record(self, offset: int, entry: Entry | None, kept: Quarantined | None) -> None:
        if offset < self._begin:
            self._lost = True
            return
        if entry is not None:
            self._findings.add(
                "history", entry.key, None, f"{ABSENT}: the log has no record at offset {offset}", PRESENT
            )
        if kept is not None:
            self._findings.add("quarantine", kept.name, None, f"{ABSENT}: the log has no such record", PRESENT)


def compare_event(findings: Findings, event: Envelope, entry: Entry) -> None:
    """A record's event against its row of history; the state by its size and its digest."""
    if _fields(event) == _fields(entry.event):
        return
    for field in _FIELDS:
        findings.compare("history", entry.key, field, getattr(event, field), getattr(entry.event, field))


def _at(place: tuple[int, int]) -> Key:
    return {"partition": str(place[0]), "offset": str(place[1])}


def _named(event: Envelope) -> Key:
    named = {"tenant_id": event.tenant_id, "session_id": event.session_id, "event_id": event.event_id.hex()}
    return {**named, "checkpoint_id": event.checkpoint_id} if event.checkpoint_id is not None else named
