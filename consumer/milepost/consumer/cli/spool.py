"""`milepost spool`: what publishers left on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click
import msgspec

from milepost.consumer.cli.options import OrderedGroup, json_option, log_options
from milepost.consumer.cli.output import print_facts, print_json, print_table
from milepost.producer.spool.drain import drain
from milepost.producer.spool.survey import FolderStatus, survey
from milepost.schemas import KafkaUnavailable, MilepostError

_folder = click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))


class Drained(msgspec.Struct, frozen=True):
    """What a drain did."""

    sent: int
    """Events that the log has confirmed; those that it had already came twice, and the consumer absorbs them."""
    left: FolderStatus


class _SpoolUnreadable(MilepostError):
    """The folder can't be read or written."""


@click.group("spool", cls=OrderedGroup)
def spool() -> None:
    """What publishers left on disk: CheckpointPublisher(spool=DIRECTORY)."""


@spool.command("status")
@_folder
@json_option
def status(directory: Path, as_json: bool) -> None:
    """Show whose events wait in DIRECTORY, and what there is damaged or foreign."""
    found = _survey(directory)
    if as_json:
        print_json(found)
    else:
        _print(found)


@spool.command("drain")
@_folder
@log_options
@click.option(
    "--timeout",
    default=60.0,
    show_default=True,
    type=click.FloatRange(0.1),
    metavar="SECONDS",
    help="How long to wait for Kafka.",
)
@json_option
def drain_folder(directory: Path, kafka: str, topic: str, timeout: float, as_json: bool) -> None:
    """Send what is in DIRECTORY. Exits with 0 when nothing is left, with 3 when something had to stay."""
    try:
        sent = drain(directory, kafka, topic, timeout)
    except OSError as error:
        raise _SpoolUnreadable(f"{directory}: {error}") from error
    left = _survey(directory)
    if as_json:
        print_json(Drained(sent, left))
    else:
        print_facts([("sent", sent), ("left", left.events)])
    if left.events:
        raise KafkaUnavailable(_why(left, kafka, topic, timeout))


def _survey(directory: Path) -> FolderStatus:
    try:
        return survey(directory)
    except OSError as error:
        raise _SpoolUnreadable(f"{directory}: {error}") from error


def _why(left: FolderStatus, kafka: str, topic: str, timeout: float) -> str:
    """Why events stayed, one reason for each kind, and what to do."""
    alive = sum(each.events for each in left.publishers if each.alive)
    other = {each.topic: each.events for each in left.publishers if not each.alive and each.topic != topic}
    rest = left.events - alive - sum(other.values())
    reasons = []
    if rest:
        reasons.append(
            f"{rest} were not confirmed by Kafka at {kafka} within {timeout:g} s: look at Kafka, run it again"
        )
    if alive:
        reasons.append(f"{alive} belong to a running publisher, which sends them itself")
    reasons += [f"{events} are for the topic {name}: run it with --topic {name}" for name, events in other.items()]
    return f"{left.events} events stay in {left.path}: {'; '.join(reasons)}"


def _print(found: FolderStatus) -> None:
    print_facts([("path", found.path), ("events", found.events), ("bytes", found.bytes)])
    print_table(
        ["publisher", "source", "topic", "alive", "files", "bytes", "events", "damaged"],
        [
            (each.publisher_id, each.source, each.topic, each.alive, each.files, each.bytes, each.events, each.damaged)
            for each in found.publishers
        ],
        empty="no publisher has events here",
    )
    for what, names in (("set aside, damaged", found.set_aside), ("foreign", found.foreign)):
        for name in names:
            click.echo(f"{what}: {name}")


COMMANDS: Final = [spool]
