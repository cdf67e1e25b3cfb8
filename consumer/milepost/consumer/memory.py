"""The tables of a view as dictionaries, and what each statement of read.sql would find in them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final
from uuid import UUID

import msgspec

from milepost.consumer.heads import Head, SessionKey
from milepost.consumer.memory_history import Explainer
from milepost.consumer.plan import HistoryRow, Plan
from milepost.consumer.reading import Row
from milepost.consumer.retention import Policies
from milepost.consumer.rules import Outcome
from milepost.schemas.codec.attributes import to_datetime

_decode_texts: Final = msgspec.json.Decoder(dict[str, str]).decode


class Tables:
    """Sessions, live checkpoints and history. Each finder has the name and the parameters of its statement."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.policies = Policies(0, {})
        """The policies as they are now."""
        self.next_offsets: dict[int, int] = {}
        self.heads: dict[SessionKey, Head] = {}
        self._live: defaultdict[SessionKey, dict[int, HistoryRow]] = defaultdict(dict)
        self._history: defaultdict[SessionKey, list[HistoryRow]] = defaultdict(list)

    def write(self, plan: Plan) -> None:
        """Do what a plan says."""
        for partition, move in plan.moves.items():
            self.next_offsets[partition] = move.next_offset
        for key, removal in plan.removals.items():
            live = self._live[key]
            for seq in [seq for seq in live if removal.low < seq <= removal.high]:
                if removal.all_of_them or not live[seq].event.pinned:
                    del live[seq]
        for (key, seq), row in plan.inserts.items():
            self._live[key][seq] = row
        for row in plan.history:
            self._history[row.event.tenant_id, row.event.session_id].append(row)

    def get(self, tenant_id: str, session_id: str, checkpoint_id: str) -> list[Row]:
        """The live checkpoint with this id."""
        found = self._live_rows(tenant_id, session_id)
        return [_checkpoint(row, self.topic) for row in found if row.event.checkpoint_id == checkpoint_id]

    def latest(self, tenant_id: str, session_id: str) -> list[Row]:
        """The live checkpoint with the highest seq."""
        return [_checkpoint(row, self.topic) for row in self._live_rows(tenant_id, session_id)[-1:]]

    def list_oldest_first(
        self, tenant_id: str, session_id: str, run_id: UUID | None, after_seq: int, limit: int | None
    ) -> list[Row]:
        """The live checkpoints of a session."""
        found = self._live_rows(tenant_id, session_id)
        return self._infos(_wanted(found, run_id, after_seq), limit)

    def list_newest_first(
        self, tenant_id: str, session_id: str, run_id: UUID | None, after_seq: int, limit: int | None
    ) -> list[Row]:
        """The same from the other end."""
        found = self._live_rows(tenant_id, session_id)
        return self._infos(_wanted(reversed(found), run_id, after_seq), limit)

    def list_by_run(self, tenant_id: str, run_id: UUID, limit: int | None) -> list[Row]:
        """The live checkpoints of a run."""
        found = [row for (tenant, _), live in self._live.items() if tenant == tenant_id for row in live.values()]
        found.sort(key=lambda row: (row.record.log_time, row.event.session_id, row.seq))
        return self._infos(_wanted(found, run_id, 0), limit)

    def session(self, tenant_id: str, session_id: str) -> list[Row]:
        """One session."""
        head = self.heads.get((tenant_id, session_id))
        return [_session(head)] if head is not None else []

    def sessions(self, tenant_id: str, after: str, limit: int | None) -> list[Row]:
        """A tenant's sessions; texts compare by code point, which is the order of their bytes in UTF-8."""
        keys = sorted(key for key in self.heads if key[0] == tenant_id and key[1] > after)
        return [_session(self.heads[key]) for key in keys[:limit]]

    def history(self, tenant_id: str, session_id: str, after_seq: int, limit: int | None) -> list[Row]:
        """The events of a session."""
        found = self._history.get((tenant_id, session_id), [])
        return [_entry(row, self.topic) for row in _wanted(found, None, after_seq)[:limit]]

    def explained(
        self, tenant_id: str, session_id: str, after_seq: int, limit: int | None, **filters: object
    ) -> list[Row]:
        """The events of a session, with what explains what became of them."""
        key = (tenant_id, session_id)
        policy, scope = self.policies.found(*key)
        explainer = Explainer(self._history.get(key, []), self._live.get(key, {}), policy, scope)
        return [(*_entry(row, self.topic), *rest) for row, rest in explainer.wanted(after_seq, limit, filters)]

    def published(self, tenant_id: str, session_id: str, checkpoint_id: str, seq: int | None) -> list[Row]:
        """The event that published a checkpoint."""
        found = [
            row
            for row in self._history.get((tenant_id, session_id), [])
            if row.event.checkpoint_id == checkpoint_id and seq in (None, row.seq)
        ]
        found.sort(key=lambda row: (row.outcome is Outcome.APPLIED, row.seq))
        return [_entry(row, self.topic) for row in found[-1:]]

    def state(self, tenant_id: str, session_id: str, seq: int) -> bytes | None:
        """The state that an event published; what the log would hold."""
        return self._history[tenant_id, session_id][seq - 1].event.state

    def next_offset(self, partition: int) -> list[Row]:
        """The topic, and where a partition stands."""
        return [(self.topic, self.next_offsets.get(partition))]

    def _live_rows(self, tenant_id: str, session_id: str) -> list[HistoryRow]:
        live = self._live.get((tenant_id, session_id), {})
        return [live[seq] for seq in sorted(live)]

    def _infos(self, rows: list[HistoryRow], limit: int | None) -> list[Row]:
        return [_info(row, self.topic) for row in rows[:limit]]


def _wanted(rows: Iterable[HistoryRow], run_id: UUID | None, after_seq: int) -> list[HistoryRow]:
    return [row for row in rows if row.seq > after_seq and (run_id is None or row.event.run_id == run_id.bytes)]


def _info(row: HistoryRow, topic: str) -> Row:
    event, record = row.event, row.record
    return (
        event.tenant_id,
        event.session_id,
        row.seq,
        event.checkpoint_id,
        UUID(bytes=event.event_id),
        event.parent_id,
        _uuid(event.run_id),
        event.step,
        event.next_node,
        to_datetime(event.event_time),
        event.framework_version,
        event.schema_version,
        event.pinned,
        event.size,
        event.sha256,
        to_datetime(record.log_time),
        _texts(event.labels),
        topic,
        record.partition,
        record.offset,
    )


def _checkpoint(row: HistoryRow, topic: str) -> Row:
    return (*_info(row, topic), row.event.state)


def _session(head: Head) -> Row:
    return (
        head.tenant_id,
        head.session_id,
        head.partition,
        head.last_seq,
        head.newest_seq,
        head.newest_checkpoint_id,
        to_datetime(head.first_event_time),
        to_datetime(head.last_event_time),
        head.live_checkpoints,
        head.live_bytes,
        to_datetime(head.deleted_at) if head.deleted_at is not None else None,
        head.deleted_seq,
        head.chain,
    )


def _entry(row: HistoryRow, topic: str) -> Row:
    event, record = row.event, row.record
    return (
        event.tenant_id,
        event.session_id,
        row.seq,
        event.kind.value,
        row.outcome.value,
        UUID(bytes=event.event_id),
        to_datetime(event.event_time),
        to_datetime(record.log_time),
        event.checkpoint_id,
        event.parent_id,
        _uuid(event.run_id),
        event.step,
        event.next_node,
        event.reason,
        event.framework_version,
        event.schema_version,
        event.pinned,
        event.size,
        event.sha256,
        event.source,
        _uuid(event.publisher_id),
        event.publisher_seq,
        event.traceparent,
        event.tracestate,
        row.chain,
        _texts(event.labels),
        _texts(event.extensions),
        topic,
        record.partition,
        record.offset,
    )


def _uuid(value: bytes | None) -> UUID | None:
    return UUID(bytes=value) if value is not None else None


def _texts(value: bytes | None) -> dict[str, str] | None:
    return _decode_texts(value) if value is not None else None
