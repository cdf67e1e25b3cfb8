"""`milepost topic`."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import click
from rich.console import Console
from rich.progress import TaskID

from milepost.consumer.cli.bars import bars
from milepost.consumer.cli.options import OrderedGroup, json_option, log_options
from milepost.consumer.cli.output import print_facts, print_json
from milepost.consumer.processes import Stop
from milepost.consumer.topic import Migration, MigrationRequest, migrate_topic
from milepost.consumer.topic.migration import Tell

logger = logging.getLogger(__name__)
_LINE_SECONDS: Final = 10.0


@click.group("topic", cls=OrderedGroup)
def topic_group() -> None:
    """Work on the log's topic as a whole."""


@topic_group.command("migrate")
@log_options
@click.option("--to", required=True, metavar="NAME", help="The new topic: none yet, or an empty one.")
@click.option("--partitions", required=True, type=click.IntRange(1, 100_000), help="A multiple of the present number.")
@click.option("--replication-factor", type=click.IntRange(1, 100), help="That of the source if left out.")
@click.option("--replace", is_flag=True, help="Delete an unfinished copy of that name first.")
@json_option
def migrate(
    kafka: str, topic: str, to: str, partitions: int, replication_factor: int | None, replace: bool, as_json: bool
) -> int:
    """Copy the log to a wider topic: every byte, header and time, each session's order. Stop its publishers first.

    What both topics hold is compared at the end. Exit status 1 when that differs; 3 when records came into the source meanwhile.
    """
    logging.getLogger().setLevel(min(logging.getLogger().level, logging.INFO))
    request = MigrationRequest(
        kafka=kafka,
        topic=topic,
        to=to,
        partitions=partitions,
        replication_factor=replication_factor,
        replace=replace,
    )
    with _telling() as tell:
        done = migrate_topic(request, stop=Stop(), tell=tell)
    _print(done, as_json)
    return 1 if done.differences else 0


def _print(done: Migration, as_json: bool) -> None:
    if as_json:
        print_json(done)
        return
    for difference in done.differences:
        click.echo(difference)
    print_facts(
        [
            ("from", f"{done.source.topic}, {done.source.partitions} partitions"),
            ("to", f"{done.target.topic}, {done.target.partitions} partitions"),
            ("records", done.records),
            ("keys", done.keys),
            ("equal", not done.differences),
            ("seconds", round(done.seconds, 2)),
        ]
    )
    if done.numbers_changed:
        click.echo(
            f"milepost: {done.numbers_changed} numbered events were not in their key's partition; views of the two topics "
            "count them differently in: milepost audit gaps",
            err=True,
        )
    if done.differences:
        click.echo("milepost: the copy is unfinished; begin again by the same command with --replace", err=True)
    else:
        click.echo(_next_steps(done.target.topic))


def _next_steps(to: str) -> str:
    return f"""
next (docs/moving.md has all of it):
  1. publishers: MILEPOST_TOPIC={to}, or topic="{to}", and start them again
  2. a new view: milepost replay --topic {to} --into NEW --policies-from OLD --follow
  3. consumers:  milepost consume --topic {to} --database NEW, once milepost status shows that it has caught up"""


@contextmanager
def _telling() -> Iterator[Tell]:
    """Bars on a terminal, a log line every ten seconds elsewhere."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines()
        return
    with bars(console, transient=False) as shown:
        tasks: dict[str, TaskID] = {}

        def tell(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = shown.add_task(what, total=total)
            shown.update(tasks[what], completed=done)

        yield tell


class _Lines:
    def __init__(self) -> None:
        self._next = time.monotonic() + _LINE_SECONDS

    def __call__(self, what: str, done: int, total: int) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _LINE_SECONDS
            logger.info("%s: %d of %d records", what, done, total)


COMMANDS: Final = [topic_group]
