"""How a log is read hangs on what comes of a byte on the wire."""

from __future__ import annotations

import msgspec
import pytest

from milepost.consumer.statistics import Statistics, decode
from milepost.consumer.unfolding import MOST, Unfolding


def statistics(wire: int, records: int) -> Statistics:
    """As librdkafka writes it, with some of what else stands there."""
    brokers = {"b:1/1": {"rxbytes": wire // 2, "tx": 3}, "b:2/2": {"rxbytes": wire - wire // 2}}
    topics = {"t": {"topic": "t", "partitions": {"0": {"rxbytes": records}, "-1": {"rxbytes": 0}}}}
    return decode(msgspec.json.encode({"name": "x", "brokers": brokers, "topics": topics}).decode())


@pytest.mark.parametrize(
    ("records", "is_mild"), [(100_000, True), (int(100_000 * MOST), True), (100_000 * 18_000, False)]
)
def test_it_is_known_once_enough_was_seen(records: int, is_mild: bool) -> None:
    unfolding = Unfolding()
    unfolding.see(statistics(2_000, 0))
    assert unfolding.is_mild is None
    unfolding.see(statistics(100_000, records))
    assert unfolding.is_mild is is_mild


def test_the_latest_interval_decides() -> None:
    unfolding = Unfolding()
    unfolding.see(statistics(1_000_000, 1_000_000))
    assert unfolding.is_mild is True
    unfolding.see(statistics(1_030_000, 1_000_000 + 30_000 * 1_000))
    assert unfolding.is_mild is False
    unfolding.see(statistics(1_031_000, 1_000_000 + 30_001_000))
    assert unfolding.is_mild is False
