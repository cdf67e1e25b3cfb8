"""All benchmarks, by name."""

from __future__ import annotations

from typing import Final

from benchmarks import against, digests, latency, parts, publish, scale, throughput, verifying
from benchmarks.bench import Bench

BENCHES: Final[dict[str, Bench]] = {
    bench.name: bench
    for bench in (
        throughput.BENCH,
        parts.BENCH,
        scale.SIZES,
        scale.SUSTAINED,
        scale.HUGE,
        scale.GROWTH,
        digests.BENCH,
        verifying.BENCH,
        against.BENCH,
        publish.BENCH,
        latency.WAY,
        latency.READS,
    )
}
