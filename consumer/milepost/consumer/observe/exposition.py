"""The catalogue's metrics with their values, in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from milepost.consumer.observe import metrics
from milepost.consumer.observe.board import Seen, positions
from milepost.consumer.observe.metrics import CATALOGUE, Metric
from milepost.consumer.observe.tallies import Tallies

Gauges = Mapping[str, Mapping[str, float]]
"""Values by the name of the metric and by label; the label of a metric without one is empty."""


class _Values(Collector):
    def __init__(self, tallies: Tallies, gauges: Gauges) -> None:
        self._tallies = tallies
        self._gauges = gauges

    def collect(self) -> Iterator[Family]:
        for metric in CATALOGUE:
            if metric.kind == "counter":
                yield self._counter(metric)
            elif metric.kind == "gauge":
                yield self._gauge(metric)
            else:
                yield self._histogram(metric)

    def _counter(self, metric: Metric) -> Family:
        family = CounterMetricFamily(metric.name, metric.help, labels=_labels(metric))
        for label, number in self._tallies.counters[metric.name].items():
            family.add_metric([label] if metric.label else [], number)
        return family

    def _gauge(self, metric: Metric) -> Family:
        family = GaugeMetricFamily(metric.name, metric.help, labels=_labels(metric))
        for label, number in self._gauges.get(metric.name, {}).items():
            family.add_metric([label] if metric.label else [], number)
        return family

    def _histogram(self, metric: Metric) -> Family:
        spread = self._tallies.spreads[metric.name]
        family = HistogramMetricFamily(metric.name, metric.help)
        buckets, below = [], 0
        for bound, count in zip((*metric.buckets, float("inf")), spread.counts, strict=True):
            below += count
            buckets.append(("+Inf" if bound == float("inf") else str(float(bound)), float(below)))
        family.add_metric([], buckets, spread.total)
        return family


def registry(tallies: Tallies, gauges: Gauges) -> CollectorRegistry:
    """A registry of these values, for one scrape."""
    found = CollectorRegistry(auto_describe=False)
    found.register(_Values(tallies, gauges))
    return found


def gauges(seen: list[Seen], ends: Mapping[int, int], away: Mapping[str, str] | None, ready: bool) -> Gauges:
    """How things stand: `ends` are the log's, `away` the servers that do not answer, None while nobody was asked."""
    stands = positions(seen)
    stopped = {partition for each in seen if each.state is not None for partition in each.state.stopped}
    return {
        metrics.POSITION.name: {str(p): offset for p, offset in sorted(stands.items())},
        metrics.LOG_END.name: {str(p): ends[p] for p in sorted(stands) if p in ends},
        # the end was asked for a while ago; the view may have gone beyond it since
        metrics.LAG.name: {str(p): max(ends[p] - stands[p], 0) for p in sorted(stands) if p in ends},
        metrics.STOPPED.name: {str(p): float(p in stopped) for p in sorted(stands)},
        metrics.ASSIGNED.name: {"": len(stands)},
        metrics.WORKERS.name: {"": sum(each.running for each in seen)},
        metrics.LOOP_AGE.name: {"": max((each.silence for each in seen), default=0.0)},
        metrics.SERVER_UP.name: {
            server: float(server not in away) for server in metrics.SERVER_UP.values if away is not None
        },
        metrics.READY.name: {"": float(ready)},
    }


def _labels(metric: Metric) -> list[str]:
    return [metric.label] if metric.label else []
