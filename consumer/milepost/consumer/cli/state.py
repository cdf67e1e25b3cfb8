"""`milepost audit state`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from milepost.consumer.cli.files import new_file_option, write_new
from milepost.consumer.cli.options import database_option, kafka_option
from milepost.consumer.cli.output import write
from milepost.consumer.store import CheckpointStore


@click.command("state")
@click.argument("tenant")
@click.argument("session")
@click.argument("checkpoint")
@kafka_option
@database_option
@new_file_option(required=False, text="Write the state there, instead of to standard output.")
@click.option(
    "--seq", type=click.IntRange(1), help="Of the event with this seq, where several published the checkpoint."
)
@click.option(
    "--timeout",
    default=30.0,
    show_default=True,
    type=click.FloatRange(0.1),
    metavar="SECONDS",
    help="How long to wait for the record.",
)
def state(
    tenant: str,
    session: str,
    checkpoint: str,
    kafka: str,
    database: str,
    to: Path | None,
    seq: int | None,
    timeout: float,
) -> int:
    """Write the state of any checkpoint that ever was, read from the log and checked by its digest.

    Pruned and deleted ones, too. Of several events that published it the latest that was applied counts. Exits with 1 for a
    checkpoint that history does not know or a state that is not the published one, with 3 when the log has lost it.
    """
    with CheckpointStore(database) as store:
        found = store.state_from_log(tenant, session, checkpoint, kafka=kafka, seq=seq, timeout=timeout)
    if found is None:
        which = f"checkpoint {checkpoint}" + (f" with seq {seq}" if seq is not None else "")
        click.echo(f"milepost: history knows no {which} in session {session} of tenant {tenant}", err=True)
        return 1
    if to is None:
        write(found.state)
    else:
        with write_new(to) as stream:
            stream.write(found.state)
    return 0


COMMANDS: Final = [state]
