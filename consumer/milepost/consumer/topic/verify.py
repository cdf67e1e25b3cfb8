"""Does the copy hold what the source holds? Both are read again, and of each key a chain of digests is kept.

A chain goes over the records of a key in a partition of the copy, in order: the log's time, the digest of the value, all headers.
It takes 32 bytes for each key and side, with the key itself about 300: 300 MB for half a million sessions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from itertools import islice
from typing import Final

import msgspec
from confluent_kafka import Message

from milepost.consumer.headers import raw_names, read_headers
from milepost.consumer.topic.merge import MergedLog
from milepost.consumer.topic.placement import Placement

_WAIT_SECONDS: Final = 0.5
_MOST: Final = 10
_encode = msgspec.msgpack.Encoder().encode


Whose = bytes | tuple[bytes | str | None, int]
"""A key, with the partition where that is not its own; or no key, and the partition."""


class Chains:
    """What a log holds; `place` says where in the copy a record belongs, or lies."""

    def __init__(self, placement: Placement, place: Callable[[Message], int]) -> None:
        self._placement = placement
        self._place = place
        self.of: dict[Whose, bytes] = {}
        self.records: Counter[int] = Counter()

    def add(self, message: Message) -> None:
        """Take in the next record."""
        key, value, place = message.key(), message.value(), self._place(message)
        self.records[place] += 1
        is_home = isinstance(key, bytes) and self._placement.is_home(key, place)
        whose = key if isinstance(key, bytes) and is_home else (key, place)
        headers, readable = read_headers(message)
        digest = sha256(value).digest() if isinstance(value, bytes) else None
        names = list(headers) if readable else raw_names(headers)
        content = _encode((message.timestamp()[1], digest, names))
        self.of[whose] = sha256(self.of.get(whose, b"") + content).digest()


def read_chains(log: MergedLog, chains: Chains, stop: Callable[[], bool], tell: Callable[[int], None]) -> None:
    """Take in a log to its end, or until told to stop."""
    while not log.is_done and not stop():
        for message in log.read(_WAIT_SECONDS):
            chains.add(message)
        tell(chains.records.total())


def differences(source: Chains, target: Chains) -> list[str]:
    """What the two do not agree on: the first ten, in words."""
    return list(islice(_differences(source, target), _MOST))


def _differences(source: Chains, target: Chains) -> Iterator[str]:
    for partition in sorted(source.records.keys() | target.records.keys()):
        expected, found = source.records[partition], target.records[partition]
        if expected != found:
            yield f"partition {partition}: expected {expected} records, found {found}"
    for whose in source.of.keys() | target.of.keys():
        if source.of.get(whose) != target.of.get(whose):
            yield f"{_named(whose)}: expected {_shown(source.of, whose)}, found {_shown(target.of, whose)}"


def _named(whose: Whose) -> str:
    return (
        f"key {whose.decode(errors='backslashreplace')}" if isinstance(whose, bytes) else f"no key, partition {whose}"
    )


def _shown(chains: Mapping[Whose, bytes], whose: Whose) -> str:
    return f"the records with the digest {chains[whose].hex()[:16]}" if whose in chains else "none"
