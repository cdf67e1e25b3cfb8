"""Are publishers counted as their records say? Counted anew in the order of the log, a partition at a time."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

import msgspec

from milepost.consumer.audit.findings import ABSENT, PRESENT, Findings, Key
from milepost.consumer.audit.rows import Row
from milepost.consumer.integrity.facts import EPOCH, moment
from milepost.consumer.numbers import Numbered


class _Counted(msgspec.Struct):
    source: str
    events: int
    highest_seq: int
    first_seen: int
    last_seen: int


class Publishers:
    """The publishers of one partition; about 300 bytes for each."""

    def __init__(self, partition: int, findings: Findings) -> None:
        self._partition = partition
        self._findings = findings
        self._counted: dict[bytes, _Counted] = {}
        self._uncertain: set[bytes] = set()

    def add_events(self, numbers: Iterable[tuple[bytes | None, int | None, str, int]]) -> None:
        """Events in the order of the log: publisher, number, source and log time, in microseconds since 2000 UTC."""
        counted = self._counted
        for publisher_id, seq, source, log_time in numbers:
            if publisher_id is None or seq is None:
                continue
            known = counted.get(publisher_id)
            if known is None or log_time + EPOCH < known.last_seen:
                self.add(Numbered(publisher_id, seq, source), log_time + EPOCH)
            elif seq > known.highest_seq:
                known.events += 1
                known.highest_seq = seq
                known.last_seen = log_time + EPOCH

    def add(self, number: Numbered | None, log_time: int) -> None:
        """The next record in the order of the log."""
        if number is None:
            return
        counted = self._counted.get(number.publisher_id)
        if counted is None:
            self._counted[number.publisher_id] = _Counted(number.source, 1, number.seq, log_time, log_time)
        elif number.seq > counted.highest_seq:
            counted.events += 1
            counted.highest_seq = number.seq
            counted.last_seen = max(counted.last_seen, log_time)

    def add_uncertain(self, publisher_id: bytes) -> None:
        """A publisher one of whose records was counted out of order: by a retry, which alone could read its number."""
        self._uncertain.add(publisher_id)

    def compare(self, rows: Iterable[Row]) -> None:
        """Compare with the rows of the statement `publishers`."""
        for publisher_id, source, events, highest_seq, first_seen, last_seen in rows:
            found = _Counted(source, events, highest_seq, moment(first_seen), moment(last_seen))
            expected = self._counted.pop(publisher_id, None)
            if publisher_id in self._uncertain:
                continue
            key = publisher_key(publisher_id, self._partition)
            if expected is None:
                self._findings.add("publishers", key, None, f"{ABSENT}: it has no record", PRESENT)
                continue
            for field in _Counted.__struct_fields__:
                self._findings.compare("publishers", key, field, getattr(expected, field), getattr(found, field))
        for publisher_id in self._counted:
            if publisher_id not in self._uncertain:
                self._findings.add("publishers", publisher_key(publisher_id, self._partition), None, PRESENT, ABSENT)


def publisher_key(publisher_id: bytes, partition: int) -> Key:
    """What names a row of publishers."""
    return {"publisher_id": str(UUID(bytes=publisher_id)), "partition": str(partition)}
