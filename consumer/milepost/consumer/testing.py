"""A view in memory, for tests without servers: the consumer's own rules over records of the log, read like the real one.

    publisher = MemoryPublisher()  # from milepost.producer.testing
    view = MemoryView()
    store = MemoryStore(view)
    publisher.publish(event)
    view.apply(publisher.records)

What becomes of an event, what retention removes and how answers are made is the code that the consumer and the stores run;
only the tables are dictionaries. What Postgres alone can refuse, such as a state nested deeper than its stack, is accepted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Protocol

from milepost.consumer.async_store import AsyncCheckpointStore
from milepost.consumer.chain import START
from milepost.consumer.heads import Head
from milepost.consumer.logged import LoggedState
from milepost.consumer.memory import Tables
from milepost.consumer.plan import Known, Plan, Stand, moves_of
from milepost.consumer.reading import Answer, Read, Row
from milepost.consumer.records import LogRecord, from_parts
from milepost.consumer.retention import Policies
from milepost.consumer.store import CheckpointStore
from milepost.consumer.views import HistoryEntry
from milepost.schemas import DEFAULT_TOPIC, Position
from milepost.schemas.wire import DEFAULT_PARTITIONS, Headers


class PublishedRecord(Protocol):
    """A record as `milepost.producer.testing.MemoryPublisher` holds it."""

    @property
    def position(self) -> Position: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Headers: ...
    @property
    def timestamp(self) -> int:
        """When the log took it, milliseconds since 1970 UTC."""


class MemoryView:
    """What the consumer keeps in Postgres, kept in memory. For several threads."""

    def __init__(
        self, topic: str = DEFAULT_TOPIC, partitions: int = DEFAULT_PARTITIONS, policies: Policies | None = None
    ) -> None:
        self.policies = policies if policies is not None else Policies(0, {})
        """What stays of a session: the newest 50 unless something else is said. A change holds from the next record on."""
        self.quarantine: list[LogRecord] = []
        """The records that were no events, each with the reason in `fault`."""
        self._positions = dict.fromkeys(range(partitions), Stand(0, START))
        self._known = Known({}, {})
        self._tables = Tables(topic)
        self._tables.next_offsets.update(self.positions)
        self._lock = threading.Lock()

    @property
    def positions(self) -> dict[int, int]:
        """The next offset of each partition."""
        return {partition: stand.next_offset for partition, stand in self._positions.items()}

    def apply(self, records: Iterable[LogRecord | PublishedRecord]) -> None:
        """Take in records, each partition's in log order. Those below its next offset were taken before and change nothing.

        Raises `ValueError` for a record of another topic, or of a partition that the topic does not have.
        """
        with self._lock:
            for record in records:
                self._apply(record if isinstance(record, LogRecord) else self._arrived(record))

    def rows(self, read: Read[Answer]) -> list[Row]:
        """What Postgres would find for a read."""
        find: Callable[..., list[Row]] = getattr(self._tables, read.name)
        with self._lock:
            self._tables.policies = self.policies
            return find(**read.parameters)

    def logged(self, entry: HistoryEntry) -> LoggedState:
        """The state that an event published, as the log would hold it."""
        with self._lock:
            state = self._tables.state(entry.tenant_id, entry.session_id, entry.seq)
        if state is None:
            raise ValueError(f"expected an event that published a checkpoint, found seq {entry.seq}")
        return LoggedState(entry, state)

    def _arrived(self, record: PublishedRecord) -> LogRecord:
        position = record.position
        if position.topic != self._tables.topic:
            raise ValueError(f"expected a record of the topic {self._tables.topic}, found {position}")
        log_time = record.timestamp * 1_000
        return from_parts(position.partition, position.offset, log_time, record.key, record.value, record.headers)

    def _apply(self, record: LogRecord) -> None:
        if record.partition not in self._positions:
            raise ValueError(f"expected a partition below {len(self._positions)}, found {record.partition}")
        if record.offset < self._positions[record.partition][0]:
            return
        heads = {}
        if (event := record.event) is not None:
            key = (event.tenant_id, event.session_id)
            heads[key] = self._tables.heads.get(key) or Head(*key, record.partition)
        plan = Plan(heads, self._known, self.policies, moves_of([record], self._positions))
        plan.add(record)
        plan.remember()
        self._tables.heads.update(heads)
        self._tables.write(plan)
        self.quarantine += plan.quarantine
        for partition, move in plan.moves.items():
            self._positions[partition] = Stand(move.next_offset, move.digest)


class MemoryStore(CheckpointStore):
    """A `CheckpointStore` over a view in memory."""

    def __init__(self, view: MemoryView) -> None:
        self._view = view
        self._is_closed = False

    def close(self) -> None:
        """Later reads raise `MilepostError`. The view stays."""
        self._is_closed = True

    def _rows(self, read: Read[Answer]) -> list[Row]:
        return self._view.rows(read)

    def _logged(self, entry: HistoryEntry, kafka: str, timeout: float) -> LoggedState:  # noqa: ARG002 - there is no Kafka
        return self._view.logged(entry)


class AsyncMemoryStore(AsyncCheckpointStore):
    """An `AsyncCheckpointStore` over a view in memory."""

    def __init__(self, view: MemoryView) -> None:
        self._view = view
        self._is_closed = False

    async def close(self) -> None:
        """Later reads raise `MilepostError`. The view stays."""
        self._is_closed = True

    async def _rows(self, read: Read[Answer]) -> list[Row]:
        return self._view.rows(read)

    async def _logged(self, entry: HistoryEntry, kafka: str, timeout: float) -> LoggedState:  # noqa: ARG002
        return self._view.logged(entry)


__all__ = ["AsyncMemoryStore", "MemoryStore", "MemoryView", "PublishedRecord"]
