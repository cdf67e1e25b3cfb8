"""`python -m benchmarks [NAME …]`: run benchmarks on a real Kafka and a real Postgres, and keep the figures."""

from __future__ import annotations

import logging
import shlex
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console

from benchmarks.bench import Bench, Stage, measure
from benchmarks.machine import describe
from benchmarks.registry import BENCHES
from benchmarks.report import Report, show, write
from milepost.embedded import Stack

console = Console(width=None if sys.stdout.isatty() else 160)


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(BENCHES)), metavar="[NAME]...")
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1))
@click.option("--seconds", default=4.0, show_default=True, type=click.FloatRange(0.1), help="For a round of a case.")
@click.option("--events", default=200_000, show_default=True, type=click.IntRange(1_000), help="In a log that is read.")
@click.option("--out", default=Path("build/bench"), show_default=True, type=click.Path(path_type=Path))
@click.option(
    "--stack",
    envvar="MILEPOST_TEST_STACK",
    show_envvar=True,
    type=click.Path(path_type=Path),
    help="The folder of a stack to use and leave running; one of its own otherwise.",
)
def main(names: tuple[str, ...], rounds: int, seconds: float, events: int, out: Path, stack: Path | None) -> None:
    """Run the benchmarks NAME, all of them when none is named."""
    out.mkdir(parents=True, exist_ok=True)
    logging.getLogger("milepost").setLevel(logging.CRITICAL)  # Kafka is away on purpose
    with _servers(stack, out) as (kafka, database):
        for name in names or BENCHES:
            with tempfile.TemporaryDirectory(dir=out) as folder:
                bench = BENCHES[name]
                report = _run(bench, Stage(kafka, database, Path(folder), seconds, events), bench.rounds(rounds))
            show(report, console)
            console.print(f"written to {write(report, out)}")


def _run(bench: Bench, stage: Stage, rounds: int) -> Report:
    machine = describe()
    command = f"python -m benchmarks {bench.name} --rounds {rounds} --seconds {stage.seconds:g} --events {stage.events}"
    with bench.cases(stage) as cases, console.status(bench.name) as status:
        rows = measure(cases, rounds, status.update)
    return Report(bench.name, bench.about, shlex.join(shlex.split(command)), machine, rounds, stage.seconds, rows)


@contextmanager
def _servers(kept: Path | None, out: Path) -> Iterator[tuple[str, str]]:
    stack = Stack(kept or out / "stack")
    stack.up()
    try:
        variables = stack.environment()
        yield variables["MILEPOST_KAFKA"], variables["MILEPOST_DATABASE"]
    finally:
        if kept is None:
            stack.destroy()


if __name__ == "__main__":
    main()
