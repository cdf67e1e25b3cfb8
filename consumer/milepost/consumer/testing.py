"""A view in memory, for tests without servers: the consumer's own rules over records of the log, read like the real one.

    view = MemoryView()
    view.apply(records)
    store = MemoryStore(view)

What becomes of an event, what retention removes and how answers are made is the code that the consumer and the stores run;
only the tables are dictionaries. What Postgres alone can refuse, such as a state nested deeper than its stack, is accepted.
"""

from __future__ import annotations

import builtins
import threading
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final
from uuid import UUID

import msgspec

from milepost.consumer.async_store import AsyncCheckpointStore
from milepost.consumer.chain import START
from milepost.consumer.heads import Head, SessionKey
from milepost.consumer.plan import HistoryRow, Known, Plan, moves_of
from milepost.consumer.reading import Answer, Read, Row
from milepost.consumer.records import LogRecord, from_parts
from milepost.consumer.retention import Policies
from milepost.consumer.store import CheckpointStore
from milepost.schemas import DEFAULT_TOPIC
from milepost.schemas.codec.attributes import to_datetime
from milepost.schemas.wire import DEFAULT_PARTITIONS, Headers

RecordParts = tuple[int, int, int, bytes | None, bytes | None, Headers | None]
"""Partition, offset, log time in microseconds since 1970 UTC, key, value, headers with their values as bytes."""

_decode_texts: Final = msgspec.json.Decoder(dict[str, str]).decode


class MemoryView:
    """What the consumer keeps in Postgres, kept in memory. For several threads."""

    def __init__(
        self, topic: str = DEFAULT_TOPIC, partitions: int = DEFAULT_PARTITIONS, policies: Policies | None = None
    ) -> None:
        self.topic = topic
        self.policies = policies if policies is not None else Policies(0, {})
        """What stays of a session; a change holds from the next record on."""
        self.quarantine: list[LogRecord] = []
        """The records that were no events, with the reason in `fault`."""
        self._positions = dict.fromkeys(range(partitions), (0, START))
        self._heads: dict[SessionKey, Head] = {}
        self._known = Known({}, {})
        self._live: defaultdict[SessionKey, dict[int, HistoryRow]] = defaultdict(dict)
        self._history: defaultdict[SessionKey, list[HistoryRow]] = defaultdict(list)
        self._lock = threading.Lock()

    @property
    def positions(self) -> dict[int, int]:
        """The next offset of each partition."""
        return {partition: offset for partition, (offset, _) in self._positions.items()}

    def apply(self, records: Iterable[LogRecord | RecordParts]) -> None:
        """Take in records, each partition's in log order. Those below its next offset were taken before and change nothing.

        Raises `ValueError` for a partition that the topic does not have.
        """
        with self._lock:
            for record in records:
                self._apply(record if isinstance(record, LogRecord) else from_parts(*record))

    def rows(self, read: Read[Answer]) -> list[Row]:
        """What Postgres would find."""
        with self._lock:
            return _FINDERS[read.name](self, **read.parameters)

    def _apply(self, record: LogRecord) -> None:
        if record.partition not in self._positions:
            raise ValueError(f"expected a partition below {len(self._positions)}, found {record.partition}")
        if record.offset < self._positions[record.partition][0]:
            return
        heads = {}
        if (event := record.event) is not None:
            key = (event.tenant_id, event.session_id)
            heads[key] = self._heads.get(key) or Head(*key, record.partition)
        plan = Plan(heads, self._known, self.policies, moves_of([record], self._positions))
        plan.add(record)
        self._heads.update(heads)
        self._take(plan)

    def _take(self, plan: Plan) -> None:
        """Do what a plan says, in the order in which `write_plan` does."""
        for partition, move in plan.moves.items():
            self._positions[partition] = (move.next_offset, move.digest)
        for key, removal in plan.removals.items():
            live = self._live[key]
            for seq in [seq for seq in live if removal.low < seq <= removal.high]:
                if removal.all_of_them or not live[seq].event.pinned:
                    del live[seq]
        for (key, seq), row in plan.inserts.items():
            self._live[key][seq] = row
        for row in plan.history:
            self._history[row.event.tenant_id, row.event.session_id].append(row)
        self.quarantine += plan.quarantine

    def _get(self, tenant_id: str, session_id: str, checkpoint_id: str) -> list[Row]:
        found = self._live_rows(tenant_id, session_id)
        return [self._with_state(row) for row in found if row.event.checkpoint_id == checkpoint_id]

    def _latest(self, tenant_id: str, session_id: str) -> list[Row]:
        return [self._with_state(row) for row in self._live_rows(tenant_id, session_id)[-1:]]

    def _list(
        self, tenant_id: str, session_id: str, run_id: UUID | None, after_seq: int, limit: int | None, step: int = 1
    ) -> list[Row]:
        found = self._live_rows(tenant_id, session_id)[::step]
        wanted = [row for row in found if row.seq > after_seq and (run_id is None or row.event.run_id == run_id.bytes)]
        return [self._info(row) for row in wanted[:limit]]

    def _list_newest_first(self, **parameters: Any) -> list[Row]:
        return self._list(**parameters, step=-1)

    def _list_by_run(self, tenant_id: str, run_id: UUID, limit: int | None) -> list[Row]:
        found = [
            row
            for (tenant, _), live in self._live.items()
            for row in live.values()
            if tenant == tenant_id and row.event.run_id == run_id.bytes
        ]
        found.sort(key=lambda row: (row.record.log_time, row.event.session_id, row.seq))
        return [self._info(row) for row in found[:limit]]

    def _session(self, tenant_id: str, session_id: str) -> list[Row]:
        head = self._heads.get((tenant_id, session_id))
        return [_session_row(head)] if head is not None else []

    def _sessions(self, tenant_id: str, after: str, limit: int | None) -> list[Row]:
        keys = sorted(key for key in self._heads if key[0] == tenant_id and key[1] > after)
        return [_session_row(self._heads[key]) for key in keys[:limit]]

    def _entries(self, tenant_id: str, session_id: str, after_seq: int, limit: int | None) -> list[Row]:
        found = self._history.get((tenant_id, session_id), [])
        return [_history_row(row, self.topic) for row in [row for row in found if row.seq > after_seq][:limit]]

    def _next_offset(self, partition: int) -> list[Row]:
        offset, _ = self._positions.get(partition, (None, None))
        return [(self.topic, offset)]

    def _live_rows(self, tenant_id: str, session_id: str) -> list[HistoryRow]:
        return sorted(self._live.get((tenant_id, session_id), {}).values(), key=lambda row: row.seq)

    def _info(self, row: HistoryRow) -> Row:
        return _info_row(row, self.topic)

    def _with_state(self, row: HistoryRow) -> Row:
        return (*self._info(row), row.event.state)


_FINDERS: Final = {
    "get": MemoryView._get,
    "latest": MemoryView._latest,
    "list": MemoryView._list,
    "list_newest_first": MemoryView._list_newest_first,
    "list_by_run": MemoryView._list_by_run,
    "session": MemoryView._session,
    "sessions": MemoryView._sessions,
    "history": MemoryView._entries,
    "next_offset": MemoryView._next_offset,
}
