"""All commands in one group, and how errors become exit codes."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from typing import Final

import click

from milepost.consumer.logs import configure
from milepost.schemas import CorruptState, InvalidEvent, InvalidSetting, MilepostError, Tampered

MODULES: Final[Mapping[str, str]] = {
    "embedded": "embedded",
    "setup": "setup",
    "publish": "publish",
    "delete-session": "publish",
    "consume": "consume",
    "get": "read",
    "list": "read",
    "list-run": "read",
    "sessions": "read",
    "history": "history",
    "status": "status",
    "retention": "retention",
    "quarantine": "quarantine",
    "replay": "replay",
    "compare": "compare",
    "topic": "topic",
    "audit": "audit",
    "import": "export",
    "spool": "spool",
}
"""Where each command is, in the order in which one meets them."""


class Commands(click.Group):
    """Imports a command's module when the command is named: what all of them import takes half a second."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - the name is click's
        """The names, in order."""
        return list(MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - the name is click's
        """The command of that name."""
        if cmd_name not in MODULES:
            return None
        commands: list[click.Command] = import_module(f"milepost.consumer.cli.{MODULES[cmd_name]}").COMMANDS
        return next(command for command in commands if command.name == cmd_name)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("milepost"), prog_name="milepost")
@click.option("--verbose", "-v", count=True, help="More log lines on standard error; twice for all of them.")
def milepost(verbose: int) -> None:
    """An event-sourced checkpoint store: Kafka is the log, Postgres is the view.

    Exit status: 0 done or yes; 1 the answer is no; 2 wrong usage; 3 could not, with what to do.
    """
    configure((logging.WARNING, logging.INFO, logging.DEBUG)[min(verbose, 2)])


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
