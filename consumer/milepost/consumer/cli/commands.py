"""All commands in one group, and how errors become exit codes."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Sequence
from importlib.metadata import version

import click

from milepost.consumer.cli import (
    audit,
    compare,
    consume,
    embedded,
    export,
    history,
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
from milepost.schemas import CorruptState, InvalidEvent, InvalidSetting, MilepostError, Tampered


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
    history,
    status,
    retention,
    quarantine,
    replay,
    compare,
    topic,
    audit,
    export,
    spool,
):
    for command in module.COMMANDS:
        milepost.add_command(command)


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit status. No failure shows a traceback, unless asked for with -vv."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # names may hold what the locale cannot show
            stream.reconfigure(errors="backslashreplace")
    try:
        result = milepost.main(args=list(arguments), prog_name="milepost", standalone_mode=False)
    except click.exceptions.Abort:
        return 130
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (InvalidEvent, InvalidSetting) as error:
        return _failed(error, 2)
    except (CorruptState, Tampered) as error:
        return _failed(error, 1)
    except MilepostError as error:
        return _failed(error, 3)
    except Exception as error:
        logging.getLogger(__name__).debug("unexpected", exc_info=error)
        return _failed(f"{type(error).__name__}: {error} (-vv shows where)", 3)
    return result if isinstance(result, int) else 0


def _failed(what: object, status: int) -> int:
    click.echo(f"milepost: {' '.join(str(what).split())}", err=True)
    return status
