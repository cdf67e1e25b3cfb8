"""Single records of the log by their offsets, and the state of any checkpoint that ever was, as the log still holds it."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Final, Self

import msgspec

from milepost.consumer import kafka
from milepost.consumer.fetcher import Fetcher
from milepost.consumer.log import LogIdentity, beginnings, ends, identify
from milepost.consumer.records import LogRecord, decoded
from milepost.consumer.views import HistoryEntry
from milepost.consumer.watch import compare
from milepost.schemas import CorruptState, KafkaUnavailable, Position, WrongLog, WrongView

_NEAR: Final = 100
"""So many records are read over rather than asking Kafka for another offset."""
_POLL_SECONDS: Final = 0.5


class LoggedState(msgspec.Struct, frozen=True, gc=False):
    """The state of a checkpoint as the log holds it. It may have been pruned since, or deleted on purpose."""

    entry: HistoryEntry
    """The event that published it."""
    state: bytes
    """The published bytes; their digest is the one in history."""


class LogRecords:
    """Reads single records of one partition, quickest in rising order. Not for several threads."""

    def __init__(self, servers: str, log: LogIdentity, partition: int, *, timeout: float) -> None:
        """`timeout` in seconds, for each record. Raises `WrongLog` when Kafka has another log, `KafkaUnavailable`."""
        client = kafka.admin(servers)
        seconds = min(timeout, kafka.ANSWER_SECONDS)
        compare(log, identify(client, servers, log.topic, seconds=seconds))
        if not 0 <= partition < log.partitions:
            raise WrongLog(f"expected one of the {log.partitions} partitions of {log.topic}, found {partition}")
        self._first = beginnings(client, servers, log)[partition]
        self._end = ends(client, servers, log)[partition]
        self._servers = servers
        self._topic = log.topic
        self._partition = partition
        self._timeout = timeout
        self._fetcher = Fetcher(servers, log.topic, "milepost-audit")

    def read(self, offset: int) -> LogRecord:
        """The record at an offset. Raises `WrongLog` when the log does not hold it, `KafkaUnavailable` after the timeout."""
        if not self._first <= offset < self._end:
            raise self._gone(offset, f"it begins at offset {self._first} and ends at {self._end}")
        following = self._fetcher.next.get(self._partition)
        if following is None or not following <= offset <= following + _NEAR:
            self._fetcher.assign({self._partition: offset})
        deadline = time.monotonic() + self._timeout
        while (left := deadline - time.monotonic()) > 0:
            # a record at a time: the one behind is for the next call
            for raw in self._fetcher.fetch(1, min(left, _POLL_SECONDS)).records:
                if raw.offset == offset:
                    return decoded(raw, None)
            if self._fetcher.next[self._partition] > offset:
                raise self._gone(offset, "there is none between its neighbours")
        raise KafkaUnavailable(f"Kafka at {self._servers} did not give {self._at(offset)} within {self._timeout:g} s")

    def close(self) -> None:
        """Close the connection to Kafka."""
        self._fetcher.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _gone(self, offset: int, why: str) -> WrongLog:
        return WrongLog(
            f"the log does not hold the record {self._at(offset)} any more: {why}; what history tells of it stays, its "
            "state is in a complete copy of the log alone"
        )

    def _at(self, offset: int) -> Position:
        return Position(self._topic, self._partition, offset)


def fetch(entry: HistoryEntry, log: LogIdentity | None, servers: str, timeout: float) -> LoggedState:
    """The state that an event published, read from the log by the event's position; `timeout` in seconds.

    Raises `WrongLog` when the log does not hold the record, `CorruptState` when the record is not what history says of it,
    `KafkaUnavailable`.
    """
    if log is None:
        raise WrongView("expected a view of a log, found one that was never filled; run: milepost setup")
    with LogRecords(servers, log, entry.position.partition, timeout=timeout) as records:
        return LoggedState(entry, checked_state(entry, records.read(entry.position.offset)))


def checked_state(entry: HistoryEntry, record: LogRecord) -> bytes:
    """The state in a record, once it is known to be the one of which history speaks. Raises `CorruptState`."""
    event = record.event
    where = f"the record at {entry.position} (tenant {entry.tenant_id}, session {entry.session_id}, seq {entry.seq})"
    if event is None or event.state is None:
        found = record.fault if event is None else f"a {event.kind}"
        raise CorruptState(f"{where}: expected the event {entry.event_id} with a state, found {found}")
    if event.event_id != entry.event_id.bytes or event.sha256 != entry.sha256:
        found_digest = event.sha256.hex() if event.sha256 is not None else None
        raise CorruptState(
            f"{where}: expected the event {entry.event_id} and a state with the SHA-256 "
            f"{entry.sha256.hex() if entry.sha256 is not None else None}, found {event.event_id.hex()} and {found_digest}"
        )
    return event.state
