"""What a worker counts, in a form that is added up and sent between processes."""

from __future__ import annotations

from bisect import bisect_left

import msgspec

from milepost.consumer.observe.metrics import CATALOGUE, Metric


class Spread(msgspec.Struct):
    """A histogram: how many values fell at or below each bound and above the one before, those above all last."""

    counts: list[int]
    total: float = 0.0


class Tallies(msgspec.Struct):
    """Counters by metric and label, and histograms by metric. They only grow."""

    counters: dict[str, dict[str, float]]
    spreads: dict[str, Spread]

    @classmethod
    def zero(cls) -> Tallies:
        """Nothing has happened yet; every counter is there."""
        return cls(
            {
                each.name: dict.fromkeys(each.values if each.label else ("",), 0.0)
                for each in CATALOGUE
                if each.kind == "counter"
            },
            {each.name: Spread([0] * (len(each.buckets) + 1)) for each in CATALOGUE if each.kind == "histogram"},
        )

    def count(self, metric: Metric, number: float = 1, label: str = "") -> None:
        """Add to a counter."""
        labels = self.counters[metric.name]
        labels[label] = labels.get(label, 0.0) + number

    def spread(self, metric: Metric, value: float) -> None:
        """Put a value into a histogram."""
        spread = self.spreads[metric.name]
        spread.counts[bisect_left(metric.buckets, value)] += 1
        spread.total += value

    def add(self, other: Tallies) -> None:
        """Add what another one counted."""
        for name, labels in other.counters.items():
            ours = self.counters[name]
            for label, number in labels.items():
                ours[label] = ours.get(label, 0.0) + number
        for name, spread in other.spreads.items():
            mine = self.spreads[name]
            mine.counts = [left + right for left, right in zip(mine.counts, spread.counts, strict=True)]
            mine.total += spread.total


class WorkerState(msgspec.Struct):
    """What a worker tells of itself: what it counted since its start, and how it stands now."""

    tallies: Tallies
    joined: bool = False
    """Whether the group has given it its share, which may be nothing."""
    started: bool = False
    """Whether it reads its share."""
    positions: dict[int, int] = msgspec.field(default_factory=dict)
    """The next offset of each partition that it has."""
    stopped: dict[int, str] = msgspec.field(default_factory=dict)
    """Partitions that cannot go on, and why."""
    away: dict[str, str] = msgspec.field(default_factory=dict)
    """Servers that it waits for, and what they said last."""
