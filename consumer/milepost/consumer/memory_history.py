"""What the statement `explained` of history.sql would find, over rows held in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from milepost.consumer.plan import HistoryRow
from milepost.consumer.reading import Row
from milepost.consumer.retention import Policy
from milepost.consumer.rules import Outcome
from milepost.schemas import Kind
from milepost.schemas.codec.attributes import to_datetime


class Explainer:
    """Knows a session whole: its events in order, and which of them are live."""

    def __init__(self, rows: Sequence[HistoryRow], live: Mapping[int, HistoryRow], policy: Policy, scope: str | None):
        self._rows = rows
        self._live = live
        self._policy = (policy.newest, policy.max_age, policy.max_bytes, scope)

    def wanted(self, after_seq: int, limit: int | None, filters: Mapping[str, Any]) -> Iterator[tuple[HistoryRow, Row]]:
        """The rows that pass the filters, each with the columns that explain it."""
        for row in self._rows:
            if limit is not None and limit < 1:
                return
            became = self._became(row)
            if row.seq > after_seq and _passes(row, became, filters):
                yield row, (became, *self._other(row, became), *self._policy)
                limit = limit - 1 if limit is not None else None

    def _became(self, row: HistoryRow) -> str:
        if row.outcome is not Outcome.APPLIED:
            return row.outcome.value
        if row.event.kind is Kind.SESSION_DELETED:
            return "applied"
        if row.seq in self._live:
            return "live"
        return "deleted" if any(_deletes(other) for other in self._rows[row.seq :]) else "pruned"

    def _other(self, row: HistoryRow, became: str) -> tuple[int | None, UUID | None, datetime | None]:
        before, event = self._rows[: row.seq - 1], row.event
        found: Iterator[HistoryRow] = iter(())
        if became == "deleted":
            found = (other for other in self._rows[row.seq :] if _deletes(other))
        elif became == "stale":
            found = (other for other in reversed(before) if _deletes(other))
        elif became in ("duplicate", "conflict"):
            same_event = [other for other in before if other.event.event_id == event.event_id]
            found = (
                iter(same_event)
                if same_event
                else reversed(
                    [o for o in before if o.outcome is Outcome.APPLIED and o.event.checkpoint_id == event.checkpoint_id]
                )
            )
        other = next(found, None)
        if other is None:
            return None, None, None
        return other.seq, UUID(bytes=other.event.event_id), to_datetime(other.event.event_time)


def _deletes(row: HistoryRow) -> bool:
    return row.outcome is Outcome.APPLIED and row.event.kind is Kind.SESSION_DELETED


def _passes(row: HistoryRow, became: str, filters: Mapping[str, Any]) -> bool:
    run_id: UUID | None = filters["run_id"]
    log_time, event_time = to_datetime(row.record.log_time), to_datetime(row.event.event_time)
    return (
        (run_id is None or row.event.run_id == run_id.bytes)
        and filters["kind"] in (None, row.event.kind.value)
        and filters["outcome"] in (None, row.outcome.value)
        and filters["became"] in (None, became)
        and _is_between(filters["since"], log_time, filters["until"])
        and _is_between(filters["event_since"], event_time, filters["event_until"])
    )


def _is_between(first: datetime | None, moment: datetime, end: datetime | None) -> bool:
    return (first is None or first <= moment) and (end is None or moment < end)
