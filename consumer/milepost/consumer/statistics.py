"""What is looked at of the statistics that a librdkafka client writes about itself (librdkafka's STATISTICS.md)."""

from __future__ import annotations

import msgspec


class Partition(msgspec.Struct):
    """A partition that the client knows."""

    rxbytes: int = 0
    """Bytes of the records that it gave, unfolded."""


class Topic(msgspec.Struct):
    """A topic that the client knows."""

    partitions: dict[str, Partition]


class Broker(msgspec.Struct):
    """A broker that the client knows, or would like to."""

    state: str = ""
    """UP when there is a connection that can be used."""
    rxbytes: int = 0
    """Bytes that came over the wire."""


class Statistics(msgspec.Struct):
    """Running totals since the client's beginning, and how things stand now."""

    brokers: dict[str, Broker]
    topics: dict[str, Topic]


decode = msgspec.json.Decoder(Statistics).decode
