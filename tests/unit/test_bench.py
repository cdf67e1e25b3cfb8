"""The benchmarks' frame: cases take turns, and a ratio is taken within a round."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.bench import Case, Figures, Spread, measure
from benchmarks.machine import describe
from benchmarks.report import Report, write


def test_cases_take_turns_and_are_compared_round_by_round(tmp_path: Path) -> None:
    order: list[str] = []

    def case(name: str, figures: list[float], *baselines: str) -> Case:
        left = iter(figures)

        def run() -> Figures:
            order.append(name)
            return {"p50 µs": next(left)}

        return Case(name, run, baselines)

    rows = measure([case("a", [10, 20, 40]), case("b", [20, 30, 20], "a")], 3, lambda _: None)
    assert order == ["a", "b"] * 3
    assert [(row.case, row.spread, row.ratios) for row in rows] == [
        ("a", Spread(20, 10, 40), {}),
        ("b", Spread(20, 20, 30), {"a": Spread(1.5, 0.5, 2.0)}),
    ]
    report = Report("x", "about", "python -m benchmarks x", describe(), 3, 1.0, rows)
    written = json.loads(write(report, tmp_path / "out").read_bytes())
    assert (written["bench"], written["rows"][1]["ratios"]["a"]["median"]) == ("x", 1.5)
