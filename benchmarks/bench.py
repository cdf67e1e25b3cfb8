"""What a benchmark is: cases that are measured in turns, round by round, so that what else the machine does hits all alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

Figures = dict[str, float]
"""What one round of one case gave, by metric; the metric's name ends in its unit."""


COMPARED: Final = ("events/s", "p50", "p99")
"""How metrics begin that are compared with a baseline's."""


class Case(msgspec.Struct, frozen=True):
    """One way of doing it."""

    name: str
    measure: Callable[[], Figures]
    """Runs one round."""
    baselines: tuple[str, ...] = ()
    """The cases that it is compared with, round by round."""


class Stage(msgspec.Struct, frozen=True):
    """Where a benchmark runs."""

    kafka: str
    database: str
    folder: Path
    """On disk, empty; removed afterwards."""
    seconds: float
    """How long one round of one case is to take, about, where it can be chosen."""
    events: int
    """How many events a log holds that is read through."""


class Bench(msgspec.Struct, frozen=True):
    """A benchmark: what it measures, and its cases for as long as the context is open."""

    name: str
    about: str
    cases: Callable[[Stage], AbstractContextManager[list[Case]]]
    most_rounds: int | None = None
    """No more of them, whatever was asked for: of one that takes minutes, and compares nothing with anything else."""

    def rounds(self, wanted: int) -> int:
        """How many are run."""
        return min(wanted, self.most_rounds or wanted)


class Spread(msgspec.Struct, frozen=True):
    """The median of all rounds, with the least and the greatest."""

    median: float
    least: float
    greatest: float

    @classmethod
    def of(cls, values: list[float]) -> Spread:
        return cls(median(values), min(values), max(values))


class Row(msgspec.Struct, frozen=True):
    """One metric of one case."""

    case: str
    metric: str
    rounds: list[float]
    spread: Spread
    ratios: dict[str, Spread]
    """To the same metric of the baselines, round by round."""


def measure(cases: list[Case], rounds: int, progress: Callable[[str], None]) -> list[Row]:
    """Measure all cases, in turns."""
    figures: dict[str, list[Figures]] = {case.name: [] for case in cases}
    for number in range(1, rounds + 1):
        for case in cases:
            progress(f"round {number} of {rounds}: {case.name}")
            figures[case.name].append(case.measure())
    return [row for case in cases for row in _rows(case, figures)]


def _rows(case: Case, figures: dict[str, list[Figures]]) -> Iterator[Row]:
    mine = figures[case.name]
    for metric in mine[0]:
        values = [found[metric] for found in mine]
        ratios = {}
        for baseline in case.baselines:
            if metric.startswith(COMPARED) and metric in figures[baseline][0]:
                others = [found[metric] for found in figures[baseline]]
                ratios[baseline] = Spread.of([value / other for value, other in zip(values, others, strict=True)])
        yield Row(case.name, metric, values, Spread.of(values), ratios)
