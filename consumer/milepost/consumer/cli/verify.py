"""`milepost audit verify`."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.progress import TaskID

from milepost.consumer.audit import NamedSeal, VerifyReport, VerifyRequest, read_seal
from milepost.consumer.audit import verify as run
from milepost.consumer.audit.keys import load_public
from milepost.consumer.audit.verify import MOST
from milepost.consumer.audit.view import Tell
from milepost.consumer.cli.bars import bars
from milepost.consumer.cli.options import database_option, integrity_keys_option, json_option
from milepost.consumer.cli.output import print_facts, print_json
from milepost.consumer.cli.quarantine import a_record_id
from milepost.consumer.integrity import keyring
from milepost.schemas import Position

logger = logging.getLogger(__name__)
_LINE_SECONDS: Final = 10.0
_MOST_PROCESSES: Final = 4
"""By default: each has a connection of its own."""
_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("verify")
@database_option
@click.option(
    "--kafka",
    envvar="MILEPOST_KAFKA",
    show_envvar=True,
    metavar="HOST:PORT",
    help="Where Kafka answers; needed for --against-log, and for seals of earlier positions.",
)
@click.option("--topic", envvar="MILEPOST_TOPIC", show_envvar=True, help="The log; the view's own if left out.")
@click.option("--against-log", is_flag=True, help="Compare with the log, record by record, too.")
@click.option(
    "--since",
    type=a_record_id,
    multiple=True,
    metavar="POSITION",
    help="Only records from PARTITION@OFFSET on, in that partition; may be given several times.",
)
@click.option("--seal", "seals", type=_FILE, multiple=True, help="A seal made earlier; may be given several times.")
@click.option("--public-key", "public_keys", type=_FILE, multiple=True, help="Of the key that made the seals.")
@integrity_keys_option
@click.option(
    "--processes",
    default=min(os.cpu_count() or 1, _MOST_PROCESSES),
    show_default=True,
    type=click.IntRange(1, 1_000),
    help="Share the work out among so many; fewer take part in a small view.",
)
@click.option("--most", default=MOST, show_default=True, type=click.IntRange(0), help="Show so many deviations.")
@json_option
def verify(
    database: str,
    kafka: str | None,
    topic: str | None,
    against_log: bool,
    since: tuple[Position, ...],
    seals: tuple[Path, ...],
    public_keys: tuple[Path, ...],
    integrity_keys: tuple[str, ...],
    processes: int,
    most: int,
    as_json: bool,
) -> int:
    """Check that the view is still what was written. Changes nothing, and may run beside a consumer.

    The view is checked against itself; with --against-log against the log, with --seal against seals, with --integrity-key
    its MACs. Exit status 1 when something deviates, each named by table, key and field; 3 when something that was asked for
    could not be checked.
    """
    if bool(seals) != bool(public_keys):
        raise click.UsageError("expected --seal and --public-key together")
    if against_log and kafka is None:
        raise click.UsageError("expected --kafka beside --against-log")
    logging.getLogger().setLevel(min(logging.getLogger().level, logging.INFO))
    request = VerifyRequest(
        database=database,
        kafka=kafka,
        topic=topic,
        against_log=against_log,
        since=since,
        seals=[NamedSeal(str(path), read_seal(str(path), path.read_bytes())) for path in seals],
        public_keys=[load_public(path) for path in public_keys],
        keys=keyring(integrity_keys),
        most=most,
        processes=processes,
    )
    with _telling() as tell:
        report = run(request, tell=tell)
    _print(report, as_json)
    if report.deviations:
        return 1
    return 0 if report.verified else 3


def _print(report: VerifyReport, as_json: bool) -> None:
    if as_json:
        print_json(report)
        return
    for deviation in report.first:
        click.echo(str(deviation))
    if (more := report.deviations - len(report.first)) > 0:
        click.echo(f"… and {more} more: --most shows more of them")
    for seal in report.seals:
        click.echo(f"seal {seal.name} of {seal.sealed_at}: checked {', '.join(seal.checked)}")
    for kind, lines in (("not checked", report.unchecked), ("note", report.notes)):
        for line in lines:
            click.echo(f"{kind}: {line}", err=True)
    print_facts(
        [
            ("log", report.log),
            *((f"{table} rows" if table != "log" else "records", rows) for table, rows in report.rows.items()),
            ("checked", ", ".join(report.checked)),
            *((f"deviations of {name}", count) for name, count in report.by_field.items()),
            ("deviations", report.deviations),
            ("verified", report.verified),
            ("seconds", report.seconds),
        ]
    )


@contextmanager
def _telling() -> Iterator[Tell]:
    """Bars on a terminal, a log line every ten seconds elsewhere."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines()
        return
    with bars(console) as shown:
        tasks: dict[str, TaskID] = {}

        def tell(stage: str, more: int, expected: int) -> None:
            if stage not in tasks:
                tasks[stage] = shown.add_task(stage, total=expected or None)
            shown.advance(tasks[stage], more)

        yield tell


class _Lines:
    def __init__(self) -> None:
        self._next = time.monotonic() + _LINE_SECONDS
        self._done: dict[str, int] = {}

    def __call__(self, stage: str, more: int, expected: int) -> None:
        self._done[stage] = self._done.get(stage, 0) + more
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _LINE_SECONDS
            logger.info("verifying: %s: %d of about %d read", stage, self._done[stage], expected)


COMMANDS: Final = [verify]
