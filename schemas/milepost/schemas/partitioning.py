"""Which partition a key goes to: what `murmur2_random` does with a key, and Java's default partitioner."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

_WORD: Final = 0xFFFFFFFF
_SEED: Final = 0x9747B28C
_FACTOR: Final = 0x5BD1E995


@lru_cache(maxsize=65_536)
def partition_of(key: bytes, partitions: int) -> int:
    """The partition, from 0, of a key in a topic with so many partitions."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    """Austin Appleby's MurmurHash2 of 32 bits, with the seed that Kafka uses."""
    length = len(data)
    mixed = _SEED ^ length
    whole = length & ~3
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little") * _FACTOR & _WORD
        word = (word ^ word >> 24) * _FACTOR & _WORD
        mixed = (mixed * _FACTOR & _WORD) ^ word
    if whole < length:
        mixed = (mixed ^ int.from_bytes(data[whole:], "little")) * _FACTOR & _WORD
    mixed = (mixed ^ mixed >> 13) * _FACTOR & _WORD
    return mixed ^ mixed >> 15
