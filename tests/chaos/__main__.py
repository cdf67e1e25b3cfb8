"""`make chaos`: see `python -m tests.chaos --help`, and docs/faults.md."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import click
import msgspec
from rich.console import Console
from rich.table import Table

from tests.chaos import planted
from tests.chaos.jobs import Jobs
from tests.chaos.run import Run, Summary
from tests.chaos.schedule import Round
from tests.chaos.signals import stop_on_signals
from tests.chaos.zombie import zombie_rounds

_LINE_SECONDS: Final = 10.0
_STOPPED: Final = 130
"""What a shell says of a command that Ctrl-C ended."""
console = Console(stderr=True, highlight=False, soft_wrap=True)


@click.group(invoke_without_command=True)
@click.option("--rounds", default=20, show_default=True, type=click.IntRange(1), help="How many rounds.")
@click.option("--seed", type=int, help="What everything is drawn from; a random one is chosen and printed.")
@click.option("--first", default=1, show_default=True, type=click.IntRange(1), help="The number of the first round.")
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1), help="Processes, each with its servers.")
@click.option("--most-failures", default=1, show_default=True, type=click.IntRange(1), help="Stop after so many.")
@click.option("--keep", type=click.Path(path_type=Path), help="Where to keep what is needed to look into a failure.")
@click.option("--bug", default="", type=click.Choice(["", *planted.BUGS]), help="Plant one, to see it found.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON on standard output.")
@click.pass_context
def chaos(
    context: click.Context,
    rounds: int,
    seed: int | None,
    first: int,
    jobs: int,
    most_failures: int,
    keep: Path | None,
    bug: str,
    as_json: bool,
) -> None:
    """Kill, stop, cut and slow whatever takes part, and check after each round that view, replay and model agree.

    Exit status 1 when they did not, 130 when it was told to stop before its end. The same seed gives the same schedule.
    """
    if context.invoked_subcommand is not None:
        return
    stop_on_signals()
    seed = random.SystemRandom().randrange(2**32) if seed is None else seed
    folder = keep or Path(tempfile.mkdtemp(prefix="milepost-chaos-"))
    console.print(f"seed {seed}; what is kept lies in {folder}")
    lines = _Lines(rounds)
    run = Run(seed, folder, lines, bug) if jobs == 1 else Jobs(jobs, seed, folder, lines, bug)
    status = 0
    try:
        run.run(first, rounds, most_failures=most_failures)
    except KeyboardInterrupt:
        console.print("stopped")
        status = _STOPPED
    finally:
        summary = run.summary
        summary.seconds = round(lines.seconds, 1)
        if not summary.failures:
            with suppress(OSError):  # there is something in it
                folder.rmdir()
        _show(summary, as_json)
    sys.exit(1 if summary.failures else status)


@chaos.command()
@click.option("--rounds", default=100, show_default=True, type=click.IntRange(1))
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--bug", default="", type=click.Choice(["", *planted.BUGS]), help="Plant one, to see it found.")
def zombie(rounds: int, seed: int, bug: str) -> None:
    """Stop a consumer for longer than the group waits, let another take over, wake it: it must write nothing."""
    stop_on_signals()
    with tempfile.TemporaryDirectory(prefix="milepost-zombie-") as folder:
        found = zombie_rounds(Path(folder), rounds, seed, lambda line: console.print(line), bug)
    console.print(f"{rounds} rounds, {len(found)} failures")
    for each in found:
        console.print(each)
    sys.exit(1 if found else 0)


@chaos.command(context_settings={"ignore_unknown_options": True})
@click.argument("bug", type=click.Choice(planted.BUGS))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def plant(bug: str, arguments: tuple[str, ...]) -> None:
    """Run pytest with a planted bug: exit status 0 when tests fail, which is what they are for."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.chaos.planted", *arguments]
    done = subprocess.run(command, env={**os.environ, planted.VARIABLE: bug}, check=False)
    console.print(f"{bug}: {'caught' if done.returncode == 1 else 'NOT caught'}")
    sys.exit(0 if done.returncode == 1 else 1)


class _Lines:
    """A line each ten seconds."""

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds
        self._started = self._last = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since it was made."""
        return time.monotonic() - self._started

    def __call__(self, summary: Summary, one: Round) -> None:
        now = time.monotonic()
        if now - self._last >= _LINE_SECONDS:
            self._last = now
            each = (now - self._started) / summary.rounds
            faults = ", ".join(map(str, one.faults))
            console.print(
                f"round {one.number}: {summary.rounds} of {self._rounds} done, {each:.1f} s each; "
                f"last: {faults} ({one.situation})"
            )


def _show(summary: Summary, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(summary)).decode() + "\n")
        return
    table = Table("fault", "times")
    for name, count in sorted(summary.faults.items()):
        table.add_row(name, str(count))
    console.print(table)
    console.print(
        f"seed {summary.seed}: {summary.rounds} rounds in {summary.seconds:.0f} s, {summary.events} records, "
        f"fenced {summary.fenced} times, {len(summary.failures)} failures"
    )
    for failure in summary.failures:
        number = failure.rpartition("-")[2]
        console.print(f"kept in {failure}; again with: make chaos SEED={summary.seed} CHAOS='--first {number}'")


if __name__ == "__main__":
    chaos()
