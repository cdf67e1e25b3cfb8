"""`milepost audit`: questions to the log and the view that one can check."""

from __future__ import annotations

from typing import Final

import click

from milepost.consumer.cli import acts, export, rekey, seal, state, verify
from milepost.consumer.cli.options import OrderedGroup, json_option, log_and_view_options
from milepost.consumer.cli.output import print_json, print_table
from milepost.consumer.gaps import read_gaps


@click.group("audit", cls=OrderedGroup)
def audit() -> None:
    """Check what the log and the view hold."""


@audit.command("gaps")
@log_and_view_options
@click.option(
    "--timeout",
    default=30.0,
    show_default=True,
    type=click.FloatRange(0.0),
    metavar="SECONDS",
    help="How long to wait for the view to reach the log's end.",
)
@click.option(
    "--settle",
    default=2.0,
    show_default=True,
    type=click.FloatRange(0.0),
    metavar="SECONDS",
    help="How long to look again at publishers that are still at work.",
)
@json_option
def gaps(kafka: str, topic: str, database: str, timeout: float, settle: float, as_json: bool) -> int:
    """Say which publisher lost how many events. Exits with 0 when none, with 1 when some are missing.

    The last events of a publisher are not missed before a later one of it has come.
    """
    found = read_gaps(kafka, topic, database, timeout=timeout, settle=settle)
    if as_json:
        print_json(found)
    else:
        print_table(
            ["publisher", "source", "events", "highest_seq", "missing", "first_seen", "last_seen"],
            [
                (
                    each.publisher_id,
                    each.source,
                    each.events,
                    each.highest_seq,
                    each.missing,
                    each.first_seen,
                    each.last_seen,
                )
                for each in found.publishers
                if each.missing
            ],
            empty=f"nothing is missing of {len(found.publishers)} publishers",
        )
    return 1 if found.missing else 0


for command in (
    *verify.COMMANDS,
    *seal.COMMANDS,
    *rekey.COMMANDS,
    *state.COMMANDS,
    *export.AUDIT_COMMANDS,
    *acts.COMMANDS,
):
    audit.add_command(command)

COMMANDS: Final = [audit]
