"""What a verification found: each deviation with its table, key, field, what was expected and what was found."""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

from milepost.schemas.codec.attributes import to_datetime

PRESENT: Final = "present"
ABSENT: Final = "absent"
_LONGEST: Final = 200
"""Characters shown of a value."""

Key = dict[str, str]


class Deviation(msgspec.Struct, frozen=True):
    """One row, or one field of it, that is not what it must be."""

    table: str
    """Of the schema milepost; `log` for a record, `seal` for a seal."""
    key: Key
    field: str | None
    """A column; None when the row as such is too many or missing."""
    expected: str
    found: str

    def __str__(self) -> str:
        where = " ".join(f"{name}={value}" for name, value in self.key.items())
        what = f"{self.field}: " if self.field is not None else ""
        return f"{self.table} {where}: {what}expected {self.expected}, found {self.found}"


class Findings:
    """Counts all deviations and keeps the first ones. What it holds does not grow with their number."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.first: list[Deviation] = []
        self.counts: Counter[str] = Counter()
        """By table and field, as in `history.chain`; by the table alone for rows too many or missing."""

    @property
    def total(self) -> int:
        """How many deviations there are."""
        return self.counts.total()

    def add(self, table: str, key: Key, field: str | None, expected: object, found: object) -> None:
        """Take in a deviation; values are shown as texts."""
        self.counts[table if field is None else f"{table}.{field}"] += 1
        if len(self.first) < self._most:
            self.first.append(Deviation(table, key, field, shown(field, expected), shown(field, found)))

    def merge(self, other: Findings) -> None:
        """Take in what another part of the verification found."""
        self.counts.update(other.counts)
        self.first += other.first[: max(self._most - len(self.first), 0)]

    def count(self, table: str, more: int) -> None:
        """Rows too many or missing that are counted without being named."""
        if more > 0:
            self.counts[table] += more

    def compare(self, table: str, key: Key, field: str, expected: object, found: object) -> None:
        """Take in a deviation when the two differ."""
        if expected != found:
            self.add(table, key, field, expected, found)


def shown(field: str | None, value: object) -> str:
    """A value for people: times as such, bytes in hex, never longer than a line."""
    if value is None:
        return "null"
    if isinstance(value, int) and field is not None and (field.endswith(("_time", "_at", "_seen"))):
        return _moment(value)
    text = value.hex() if isinstance(value, bytes) else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text)} characters)"


def _moment(microseconds: int) -> str:
    try:
        return to_datetime(microseconds).isoformat(" ", "microseconds").replace("+00:00", "Z")
    except OverflowError:
        return f"{microseconds} microseconds since 1970"
