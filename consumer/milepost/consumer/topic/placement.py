"""Which partition of the wider topic a record belongs to."""

from __future__ import annotations

from confluent_kafka import Message

from milepost.schemas.partitioning import partition_of


class Placement:
    """From a topic with so many partitions to one with as many or more."""

    def __init__(self, old: int, new: int) -> None:
        self._old = old
        self._new = new

    def of(self, message: Message) -> int:
        """That of its key, as every publisher works it out; a record without a key keeps the number of its partition.

        A record that did not lie where its key goes is in quarantine for it, and comes to lie where its key does not go either.
        """
        key, partition = message.key(), at(message)
        if not isinstance(key, bytes):
            return partition
        right = partition_of(key, self._new)
        if partition_of(key, self._old) == partition:
            return right
        return partition if partition != right else (partition + 1) % self._new

    def is_home(self, key: bytes, partition: int) -> bool:
        """Whether a key goes to this partition of the new topic."""
        return partition_of(key, self._new) == partition


def at(message: Message) -> int:
    """The partition a record lies in."""
    partition = message.partition()
    if partition is None:
        raise TypeError("expected a record of a log, found a message without a partition")
    return partition
