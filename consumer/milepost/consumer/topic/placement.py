"""Which partition of the wider topic a record belongs to."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from confluent_kafka import Message

from milepost.schemas.partitioning import partition_of

_REMEMBERED: Final = 100_000


class Placement:
    """A topic with so many partitions."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self._of = lru_cache(_REMEMBERED)(lambda key: partition_of(key, partitions))

    def of(self, message: Message) -> int:
        """That of its key, as every publisher works it out; a record without a key keeps the number of its partition."""
        key = message.key()
        return self._of(key) if isinstance(key, bytes) else at(message)


def at(message: Message) -> int:
    """The partition a record lies in."""
    partition = message.partition()
    if partition is None:
        raise TypeError("expected a record of a log, found a message without a partition")
    return partition
