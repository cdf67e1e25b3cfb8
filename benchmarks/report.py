"""A benchmark's figures, as JSON for programs and as a table for people."""

from __future__ import annotations

from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.bench import Row, Spread
from benchmarks.machine import Machine


class Report(msgspec.Struct, frozen=True):
    """One run of one benchmark."""

    bench: str
    about: str
    command: str
    machine: Machine
    rounds: int
    seconds: float
    rows: list[Row]


def write(report: Report, folder: Path) -> Path:
    """Write the report into `NAME.json` of the folder, and give the file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{report.bench}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    return path


def show(report: Report, console: Console) -> None:
    """Print a report's table: medians, with the least and the greatest round in brackets."""
    machine = report.machine
    table = Table(title=f"{report.bench}: {report.about}", title_justify="left", box=None, pad_edge=False)
    for name in ("case", "metric", "median", "min to max", "to", "ratio", "min to max"):
        table.add_column(name, justify="right" if name in ("median", "ratio") else "left", no_wrap=True)
    for row in report.rows:
        ratios: list[tuple[str, Spread | None]] = list(row.ratios.items()) or [("", None)]
        first, *others = ratios
        table.add_row(row.case, row.metric, *_texts(row.spread, 1), *_ratio(*first))
        for other in others:
            table.add_row("", "", "", "", *_ratio(*other))
    console.print(table)
    console.print(
        f"{machine.date}; {machine.processor}, {machine.processors} processors, load {machine.load_before[0]:.1f}; "
        f"{machine.system}; Python {machine.python}, confluent-kafka {machine.confluent_kafka}, "
        f"librdkafka {machine.librdkafka}; {report.rounds} rounds: {report.command}",
        highlight=False,
    )


def _ratio(baseline: str, spread: Spread | None) -> tuple[str, str, str]:
    return (baseline, "", "") if spread is None else (baseline, *_texts(spread, 2))


def _texts(spread: Spread, digits: int) -> tuple[str, str]:
    return f"{spread.median:,.{digits}f}", f"{spread.least:,.{digits}f} to {spread.greatest:,.{digits}f}"
