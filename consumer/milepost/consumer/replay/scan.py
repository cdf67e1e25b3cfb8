"""Reading a part of the log from one offset to another, without a consumer group."""

from __future__ import annotations

from collections.abc import Mapping

from milepost.consumer.fetcher import Fetched, Fetcher


class Scan:
    """Reads partitions from `start` up to `end`, which is the offset after the last record wanted. Not for several threads."""

    def __init__(self, servers: str, topic: str, start: Mapping[int, int], end: Mapping[int, int]) -> None:
        self._end = end
        self._fetcher = Fetcher(servers, topic, "milepost-replay")
        self._fetcher.assign({partition: offset for partition, offset in start.items() if offset < end[partition]})

    @property
    def is_done(self) -> bool:
        """Whether every partition was read to its end."""
        return not self._fetcher.next

    def fetch(self, limit: int, seconds: float) -> Fetched:
        """Wait so long for a record, then take what is there with it, at most so many.

        Raises `WrongLog` when the log does not hold an offset, `KafkaUnavailable` for what librdkafka gives up.
        """
        fetched = self._fetcher.fetch(limit, seconds)
        end = self._end
        for partition, offset in list(self._fetcher.next.items()):
            if offset >= end[partition]:
                self._fetcher.drop(partition)
                # beyond the end there may be a record all the same, where markers of transactions lie before it
                if any(raw.partition == partition and raw.offset >= end[partition] for raw in fetched.records):
                    fetched.skips[partition] = end[partition]
        fetched.records = [raw for raw in fetched.records if raw.offset < end[raw.partition]]
        fetched.skips = {partition: min(offset, end[partition]) for partition, offset in fetched.skips.items()}
        return fetched

    def close(self) -> None:
        """Close the connection to Kafka."""
        self._fetcher.close()
