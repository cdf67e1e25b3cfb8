"""What counts as the size of a record."""

from __future__ import annotations

from typing import Any

from milepost.consumer.records import decoded, taken
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
        return b"state"

    def headers(self) -> Any:
        if self._fails:
            self._fails = False
            raise SystemError
        return self._headers


def test_keys_headers_and_values_weigh() -> None:
    # as MessagePack: an array, its pairs and their names have a byte more each, a value two, an absent one is a byte
    assert taken(Message([("a", b"xx"), ("b", b"")])).weight == 3 + 2 * (1 + 3 + 4 + 3 + 2) + 5
    assert taken(Message([("a", b"xx"), ("b", None)])).weight == 3 + 2 * (1 + 3 + 4 + 3 + 1) + 5


def test_large_headers_are_not_held_twice() -> None:
    raw = taken(Message([("a", b"x" * 70_000)]))
    assert raw.packed == b""
    assert raw.weight == 3 + (1 + 3 + 5 + 70_000) + 5


def test_a_message_is_taken_as_it_is() -> None:
    raw = taken(Message([("a", b"xx")]))
    assert (raw.partition, raw.offset, raw.log_time, raw.key, raw.value) == (1, 2, 3_000, b"t/s", b"state")
    assert (raw.headers, raw.is_readable) == ([("a", b"xx")], True)


def test_headers_that_come_once() -> None:
    raw = taken(Message([("a", b"xx")], fails=True))
    assert (raw.is_readable, raw.weight) == (False, 3 + 2 * (1 + 3 + 4) + 5)
    for _ in range(2):
        record = decoded(raw, None)
        assert record.fault is not None and record.fault.reason is Reason.UNREADABLE_HEADERS
        assert record.headers == [("a", b"xx")]
