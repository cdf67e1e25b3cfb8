"""`milepost compare`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

import click
from rich.console import Console

from milepost.consumer import compare as views
from milepost.consumer.cli.bars import bars
from milepost.consumer.cli.options import json_option
from milepost.consumer.cli.output import print_facts, print_json
from milepost.consumer.database import Connection


@click.command("compare")
# not two arguments: click would repeat a third one, password included
@click.argument("databases", metavar="DATABASE [DATABASE]", nargs=-1)
@click.option("--digest", "only_digest", is_flag=True, help="Print the digest of one view, for comparing by 32 bytes.")
@click.option("--ignore-positions", is_flag=True, help="For the views of a log and of its copy in another topic.")
@click.option("--most", default=10, show_default=True, type=click.IntRange(1), help="Stop after so many differences.")
@json_option
def compare(databases: tuple[str, ...], only_digest: bool, ignore_positions: bool, most: int, as_json: bool) -> int:
    """Say whether two views are equal, and what differs first. Exit status 1 when they differ.

    What hangs on the consumer's clock is left out: columns named recorded_at, the view's id, and what was done about a
    quarantined record. With --ignore-positions so is where records stand: topic, partition, offset and the partitions' digests;
    numbers of partitions and publishers are added up.
    """
    if len(databases) != (1 if only_digest else 2):
        raise click.UsageError(f"expected two databases, or one with --digest, found {len(databases)}")
    left, right = databases[0], databases[-1] if not only_digest else None
    with ExitStack() as stack:
        ours = stack.enter_context(views.snapshot(left))
        if right is None:
            with _bar([ours]) as progress:
                found = views.digest(ours, positions=not ignore_positions, progress=progress).hex()
            if as_json:
                print_json({"digest": found})
            else:
                click.echo(found)
            return 0
        theirs = stack.enter_context(views.snapshot(right))
        with _bar([ours, theirs]) as progress:
            comparison = views.compare(ours, theirs, most=most, positions=not ignore_positions, progress=progress)
    _print(comparison, as_json)
    return 0 if comparison.equal else 1


def _print(comparison: views.Comparison, as_json: bool) -> None:
    if as_json:
        print_json({"equal": comparison.equal, "rows": comparison.rows, "differences": comparison.differences})
        return
    for difference in comparison.differences:
        click.echo(str(difference))
    print_facts([*comparison.rows.items(), ("equal", comparison.equal)])


@contextmanager
def _bar(connections: list[Connection]) -> Iterator[views.Progress | None]:
    """A bar on standard error, when that is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    total = max(views.expected_rows(connection) for connection in connections)
    with bars(console) as shown:
        task = shown.add_task("rows", total=total or None)
        yield lambda rows: shown.advance(task, rows)


COMMANDS: Final = [compare]
