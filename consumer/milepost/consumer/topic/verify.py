"""Does the copy hold what the source holds? Both are read again, and of each key a chain of digests is kept.

A chain goes over the records of a key in order: the partition of the copy, the log's time, the digest of the value, all headers.
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
from milepost.consumer.topic.placement import at

_WAIT_SECONDS: Final = 0.5
_MOST: Final = 10
_encode = msgspec.msgpack.Encoder().encode


class Chains:
    """What a log holds, partition by partition of the copy."""

    def __init__(self, place: Callable[[Message], int]) -> None:
        self._place = place
        self.of: dict[bytes | int, bytes] = {}
        """By key; records without one by their partition."""
        self.records: Counter[int] = Counter()

    def add(self, message: Message) -> None:
        """Take in the next record."""
        key, value, place = message.key(), message.value(), self._place(message)
        self.records[place] += 1
        whose = key if isinstance(key, bytes) else at(message)
        headers, readable = read_headers(message)
        digest = sha256(value).digest() if isinstance(value, bytes) else None
        names = list(headers) if readable else raw_names(headers)
        content = _encode((place, message.timestamp()[1], digest, names))
        self.of[whose] = sha256(self.of.get(whose, b"") + content).digest()


def read_chains(
    log: MergedLog, place: Callable[[Message], int], stop: Callable[[], bool], tell: Callable[[int], None]
) -> Chains:
    """The chains of a log, read to its end or until told to stop; `place` says where in the copy a record belongs."""
    chains = Chains(place)
    while not log.is_done and not stop():
        for message in log.read(_WAIT_SECONDS):
            chains.add(message)
        tell(chains.records.total())
    return chains


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


def _named(whose: bytes | int) -> str:
    return (
        f"key {whose.decode(errors='backslashreplace')}" if isinstance(whose, bytes) else f"no key, partition {whose}"
    )


def _shown(chains: Mapping[bytes | int, bytes], whose: bytes | int) -> str:
    return f"the records with the digest {chains[whose].hex()[:16]}" if whose in chains else "none"
