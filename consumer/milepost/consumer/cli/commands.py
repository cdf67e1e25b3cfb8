"""All commands in one group, and how errors become exit codes."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version

import click

from milepost.consumer.cli import (
    audit,
    compare,
    consume,
    embedded,
    publish,
    quarantine,
    read,
    replay,
    retention,
    setup,
    spool,
    status,
    topic,
)
from milepost.consumer.cli.options import OrderedGroup
from milepost.consumer.logs import configure
from milepost.schemas import CorruptState, InvalidEvent, InvalidSetting, MilepostError


@click.group(cls=OrderedGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("milepost"), prog_name="milepost")
@click.option("--verbose", "-v", count=True, help="More log lines on standard error; twice for all of them.")
def milepost(verbose: int) -> None:
    """An event-sourced checkpoint store: Kafka is the log, Postgres is the view.

    Exit status: 0 done or yes; 1 the answer is no; 2 wrong usage; 3 could not, with what to do.
    """
    configure((logging.WARNING, logging.INFO, logging.DEBUG)[min(verbose, 2)])


for module in (
    embedded,
    setup,
    publish,
    consume,
    read,
    status,
    retention,
    quarantine,
    replay,
    compare,
    topic,
    audit,
    spool,
):
    for command in module.COMMANDS:
        milepost.add_command(command)


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit status. No failure that is known shows a traceback."""
    try:
        result = milepost.main(args=list(arguments), prog_name="milepost", standalone_mode=False)
    except click.exceptions.Abort:
        return 130
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except MilepostError as error:
        return _failed(error)
    except BrokenPipeError:
        # whoever read our output has gone; Python must not try to flush it once more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return result if isinstance(result, int) else 0


def _failed(error: MilepostError) -> int:
    click.echo(f"milepost: {' '.join(str(error).split())}", err=True)
    if isinstance(error, InvalidEvent | InvalidSetting):
        return 2
    return 1 if isinstance(error, CorruptState) else 3
