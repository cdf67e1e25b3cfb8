"""That the benchmarks work, on small logs; their figures say nothing here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from benchmarks.bench import Row
from benchmarks.report import Report
from milepost.embedded import Stack

CASES = {
    "live": {
        "read, 1 process",
        "checking read, 1 process",
        "copy, 1 process",
        "copy, 2 processes",
        "live, 1 process",
        "live, 2 processes",
        "replay, 1 process",
        "replay, 2 processes",
    },
    "parts": {"live, 1 process"},
    "verify": {
        f"{name}{case}"
        for name in ("", "half live: ")
        for case in ("read of the tables", "read of tables and log", "verify", "verify against the log")
    },
    "latency": {"publish to readable, 100 a second"},
    "reads": {f"{by}{read}" for by in ("", "by hand: ") for read in ("get", "latest", "list of 50")},
}


@pytest.fixture(scope="module")
def reports(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Report]:
    folder = tmp_path_factory.mktemp("bench")
    options = ["--rounds", "1", "--seconds", "0.3", "--events", "3000", "--out", str(folder)]
    command = [sys.executable, "-m", "benchmarks", *CASES, *options, "--stack", str(stack.directory)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=240, cwd=Path(__file__).parents[2]
    )
    assert done.returncode == 0, done.stderr
    return {name: msgspec.json.decode((folder / f"{name}.json").read_bytes(), type=Report) for name in CASES}


@pytest.mark.parametrize("name", CASES)
def test_every_case_gives_figures(reports: dict[str, Report], name: str) -> None:
    rows = reports[name].rows
    assert {row.case for row in rows} == CASES[name]
    assert all(figure >= 0 for row in rows for figure in row.rounds)
    assert all(row.spread.median > 0 for row in rows if row.metric.startswith(("events/s", "p50")))


def test_a_ratio_is_to_its_yardstick(reports: dict[str, Report]) -> None:
    rows = {(row.case, row.metric): row for row in reports["live"].rows}
    live, copy = rows["live, 2 processes", "events/s"], rows["copy, 1 process", "events/s"]
    assert live.ratios["copy, 1 process"].median == pytest.approx(_figure(live) / _figure(copy))
    assert set(rows["replay, 1 process", "events/s"].ratios) == {
        "checking read, 1 process",
        "read, 1 process",
        "live, 1 process",
    }


def test_the_parts_are_those_of_a_consumer(reports: dict[str, Report]) -> None:
    metrics = {row.metric for row in reports["parts"].rows}
    assert {"fetch µs", "headers µs", "check µs", "hash µs", "plan µs", "chains µs", "copy µs", "wait µs"} <= metrics


def _figure(row: Row) -> float:
    return row.rounds[0]
