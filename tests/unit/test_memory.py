"""What counts as the size of a record, and when it is decoded."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from milepost.consumer.materializer import Applied
from milepost.consumer.reader import Chunk
from milepost.consumer.records import LogRecord, UnreadableMessage, from_message, from_parts, weighed
from milepost.consumer.worker import Worker, WorkerReport, batches
from milepost.schemas import Reason


class Message:
    """As confluent_kafka's; headers whose names are no UTF-8 it gives out once."""

    def __init__(self, headers: list[tuple[str, bytes | None]], *, fails: bool = False) -> None:
        self._headers = headers
        self._fails = fails

    def partition(self) -> int:
        return 1

    def offset(self) -> int:
        return 2

    def timestamp(self) -> tuple[int, int]:
        return 1, 3

    def key(self) -> bytes:
        return b"t/s"

    def value(self) -> bytes | None:
        return None

    def headers(self) -> Any:
        if self._fails:
            self._fails = False
            raise SystemError
        return self._headers


def record(size: int, offset: int = 0) -> LogRecord:
    return from_parts(0, offset, 0, b"key", None, [("name", b"x" * (size - 7))])


def test_keys_and_headers_weigh() -> None:
    message = Message([("a", b"xx"), ("b", None)])
    assert weighed(message) == (message, 3 + 3 + 1)
    assert from_message(message, None).weight == 7
    assert record(1_000).weight == 1_000


def test_headers_that_come_once() -> None:
    found, size = weighed(Message([("a", b"xx")], fails=True))
    assert (isinstance(found, UnreadableMessage), size) == (True, 6)
    fault = from_message(found, None).fault
    assert fault is not None and fault.reason is Reason.UNREADABLE_HEADERS
    assert from_message(found, None).headers == [("a", b"xx")]


def test_a_batch_is_cut_before_the_rest_is_decoded() -> None:
    decoded: list[int] = []

    def records() -> Iterator[LogRecord]:
        for number in range(10):
            decoded.append(number)
            yield record(400, number)

    cut = batches(records(), 1_000)
    assert [found.offset for found in next(cut)] == [0, 1]
    assert decoded == [0, 1, 2]
    assert [[found.offset for found in batch] for batch in cut] == [[2, 3], [4, 5], [6, 7], [8, 9]]
    assert [len(batch) for batch in batches([record(5_000), record(10)], 1_000)] == [1, 1]


def test_a_stop_is_heard_between_batches() -> None:
    """What is left of the chunk is neither decoded nor skipped."""
    happened: list[object] = []
    messages: list[Any] = [Message([("a", b"x" * 600)]) for _ in range(5)]

    def apply(batch: list[LogRecord]) -> Applied:
        happened.append(len(batch))
        return Applied({}, len(batch), 0, 0)

    worker: Any = object.__new__(Worker)
    worker._config = SimpleNamespace(batch_events=100, batch_bytes=1_000)
    worker._log = SimpleNamespace(partitions=None)
    worker._materializer = SimpleNamespace(
        sweep=lambda: None, is_sweeping=False, apply=apply, skip_to=lambda skips: happened.append(skips), positions={}
    )
    worker._reader = SimpleNamespace(
        started=True,
        assigned=frozenset({1}),
        read=lambda *_: Chunk(messages, {1: 9}),
        hold=lambda: happened.append("hold"),
        commit=lambda _: happened.append("commit"),
    )
    worker._report, worker._failures, worker._last_line = WorkerReport(), 0, (0.0, 0)
    worker._stop = lambda: happened.count(1) == 2
    worker._step()
    assert happened == [1, 1, "hold"]
    happened.clear()
    worker._stop = lambda: False
    worker._step()
    assert happened == [1, 1, 1, 1, 1, {1: 9}, "commit"]
