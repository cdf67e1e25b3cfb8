"""What became of each event of a session, and why: history read together with what followed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, TypedDict, cast
from uuid import UUID

from milepost.consumer import reading
from milepost.consumer.reading import Read, Row
from milepost.consumer.retention import DEFAULT_NEWEST
from milepost.consumer.rules import Outcome
from milepost.consumer.views import HistoryEntry
from milepost.schemas import Kind

PAGE: Final = 1_000
"""Events that are read at once."""


class Became(StrEnum):
    """What became of an event, as the view stands now."""

    LIVE = "live"
    """A checkpoint that can be read."""
    PRUNED = "pruned"
    """Retention removed its state."""
    DELETED = "deleted"
    """The session was deleted after it; retention may have removed its state before that."""
    APPLIED = "applied"
    """A deletion that took effect."""
    DUPLICATE = "duplicate"
    """It said once more what an earlier event had said."""
    STALE = "stale"
    """It was made before a deletion and arrived after it."""
    CONFLICT = "conflict"
    """It used an id that was taken, for something else."""


class ExplainedEntry(HistoryEntry, frozen=True, gc=False):
    """A history entry with what became of it."""

    became: Became
    why: str | None
    """What made it so: the policy as it is now, the deletion, the event that it repeats. None where nothing did."""


class HistoryFilters(TypedDict, total=False):
    """Which events of a session are wanted; None takes all. Moments are aware; a range holds its beginning and not its end."""

    run_id: UUID | None
    kind: Kind | None
    outcome: Outcome | None
    became: Became | None
    since: datetime | None
    """By the log's time: a part of the log's order."""
    until: datetime | None
    event_since: datetime | None
    """By the event's own time, the clock of the runtime."""
    event_until: datetime | None


_new_entry: Final[Callable[..., ExplainedEntry]] = ExplainedEntry
_MOMENTS: Final = ("since", "until", "event_since", "event_until")


def explained(
    tenant_id: str, session_id: str, after_seq: int, limit: int | None, filters: HistoryFilters
) -> Read[list[ExplainedEntry]]:
    """The wanted events of a session above a seq."""
    parameters = dict(reading.history(tenant_id, session_id, after_seq, limit).parameters)
    given: dict[str, Any] = cast("dict[str, Any]", filters)
    if unknown := given.keys() - HistoryFilters.__annotations__.keys():
        raise TypeError(f"expected filters among {', '.join(HistoryFilters.__annotations__)}, found {sorted(unknown)}")
    run_id = given.get("run_id")
    parameters["run_id"] = reading.run(run_id) if run_id is not None else None
    for name, kind in (("kind", Kind), ("outcome", Outcome), ("became", Became)):
        value = given.get(name)
        parameters[name] = kind(value).value if value is not None else None
    for name in _MOMENTS:
        parameters[name] = _moment(name, given.get(name))
    # a plan for any filters and any limit would read the whole session for each page
    return Read("explained", parameters, _explained, may_prepare=False)


class Pages:
    """The reads of a long history, page by page: ask `next`, give `took` what it answered, until `next` is None."""

    def __init__(
        self, tenant_id: str, session_id: str, after_seq: int, limit: int | None, filters: HistoryFilters
    ) -> None:
        self._names = (tenant_id, session_id)
        self._filters = filters
        self._after = after_seq
        self._left = limit
        self._size = PAGE
        self.next: Read[list[ExplainedEntry]] | None = None
        """The read to be done now; None when there is nothing more."""
        # checks the limit, of which a page takes a part
        explained(tenant_id, session_id, after_seq, limit, filters)
        self._turn()

    def took(self, page: list[ExplainedEntry]) -> None:
        """Go on behind a page."""
        if self._left is not None:
            self._left -= len(page)
        if len(page) < self._size or self._left == 0:
            self.next = None
            return
        self._after = page[-1].seq
        self._turn()

    def _turn(self) -> None:
        self._size = PAGE if self._left is None else min(PAGE, self._left)
        self.next = explained(*self._names, self._after, self._size, self._filters)


def _moment(name: str, value: object) -> datetime | None:
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise TypeError(f"{name}: expected a datetime, found {type(value).__name__}")
    if value.utcoffset() is None:
        raise ValueError(f"{name}: expected a datetime with a time zone, found {value!r}")
    return value


def _explained(rows: Sequence[Row]) -> list[ExplainedEntry]:
    return [_entry(row) for row in rows]


def _entry(row: Row) -> ExplainedEntry:
    became = Became(row[30])
    why = _why(became, row[16], row[5], row[31:34], row[34:38])
    return _new_entry(*reading.entry_values(row), became, why)


def _why(became: Became, pinned: bool, event_id: UUID, other: Row, policy: Row) -> str | None:
    seq, other_event, moment = other
    if became is Became.PRUNED:
        return _policy(*policy)
    if became is Became.LIVE:
        return "pinned" if pinned else None
    if became is Became.APPLIED or seq is None:
        return None
    if became in (Became.DELETED, Became.STALE):
        by = f"event {other_event} at {moment.astimezone(UTC).isoformat(' ', 'microseconds').replace('+00:00', 'Z')}"
        return (
            f"deleted by seq {seq}, {by}" if became is Became.DELETED else f"older than the deletion of seq {seq}, {by}"
        )
    same_event = other_event == event_id
    if became is Became.DUPLICATE:
        return f"duplicate of seq {seq}: {'the same event' if same_event else 'the same checkpoint and bytes'}"
    if same_event:
        return f"conflict with seq {seq}: the same event id, other content"
    return f"conflict with seq {seq}: the same checkpoint id, other bytes"


def _policy(newest: int | None, max_age: int | None, max_bytes: int | None, scope: str | None) -> str:
    limits = [f"newest {newest if newest is not None else DEFAULT_NEWEST}"]
    if max_age is not None:
        limits.append(f"at most {max_age / 1_000_000:g} s before the newest")
    if max_bytes is not None:
        limits.append(f"at most {max_bytes} bytes")
    return f"pruned: {', '.join(limits)}{f' (policy of the {scope})' if scope is not None else ''}"
