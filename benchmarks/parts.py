"""Where a consumer's processor time goes, event by event, so that the next improvement is known."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

import msgspec

from benchmarks.bench import Bench, Case, Figures, Stage
from benchmarks.log import Shape
from benchmarks.throughput import consume, log


@contextmanager
def cases(stage: Stage) -> Iterator[list[Case]]:
    """One log, one consumer."""
    shape = Shape(stage.events)
    with log(stage, shape) as topic:
        yield [Case("live, 1 process", partial(_profiled, stage, topic, shape))]


def _profiled(stage: Stage, topic: str, shape: Shape) -> Figures:
    times = stage.folder / "times.json"
    figures = consume(stage, topic, shape, program=[sys.executable, "-m", "benchmarks.profiled", times])
    found = msgspec.json.decode(times.read_bytes(), type=dict[str, float])
    return figures | {f"{name} µs": seconds / shape.events * 1e6 for name, seconds in found.items()}


BENCH: Final = Bench("parts", "processor time by part, 7.5 KB", cases)
