"""How far the log unfolds: bytes of records for each byte that came over the wire, as librdkafka's statistics tell.

What a fetch may bring is limited by what it takes on the wire, and zstd packs 16 MiB of a dull state into 900 bytes. So a log
is fetched in small bites until it is known what comes of a bite.
"""

from __future__ import annotations

from typing import Final

from milepost.consumer.statistics import Statistics

MOST: Final = 64.0
"""A log that unfolds further is read in small bites. States as runtimes write them stay below 30 with zstd."""
_ENOUGH_BYTES: Final = 20_000
"""On the wire: less tells nothing."""


class Unfolding:
    """Fed with a client's statistics, it says how its log is to be read."""

    def __init__(self) -> None:
        self._wire = self._records = 0
        self.is_mild: bool | None = None
        """Whether the log unfolds so little that large bites are safe; None until enough was seen."""

    def see(self, found: Statistics) -> None:
        """Take the statistics of one interval."""
        wire = sum(broker.rxbytes for broker in found.brokers.values())
        records = sum(count.rxbytes for topic in found.topics.values() for count in topic.partitions.values())
        if wire - self._wire < _ENOUGH_BYTES:
            return
        self.is_mild = records - self._records <= MOST * (wire - self._wire)
        self._wire, self._records = wire, records
