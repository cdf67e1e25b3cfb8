"""`milepost audit export`, `milepost audit check-export` and `milepost import`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from milepost.consumer.audit.export import Exported, ExportRequest, Tell, export_session
from milepost.consumer.audit.export_check import ExportCheck, check_export
from milepost.consumer.audit.export_import import ImportRequest, import_session
from milepost.consumer.cli.bars import bars
from milepost.consumer.cli.files import new_file_option, write_new
from milepost.consumer.cli.options import database_option, json_option, log_options
from milepost.consumer.cli.output import print_facts, print_json

_file_argument = click.argument("file", type=click.Path(exists=True, dir_okay=False, readable=True, path_type=Path))


@click.command("export")
@click.argument("tenant")
@click.argument("session")
@click.option("--kafka", envvar="MILEPOST_KAFKA", show_envvar=True, metavar="HOST:PORT", help="Where Kafka answers.")
@click.option("--view-only", is_flag=True, help="Leave out the states that only the log holds, and ask no Kafka.")
@database_option
@new_file_option(required=True, text="The archive.")
@json_option
def export(
    tenant: str, session: str, kafka: str | None, view_only: bool, database: str, to: Path, as_json: bool
) -> int:
    """Write a session into one file that proves itself: all of its history, and every state that view or log still holds.

    Exits with 1 when there is no such session. States that nobody holds any more are named in the file.
    """
    if kafka is None and not view_only:
        raise click.UsageError("expected --kafka, MILEPOST_KAFKA or --view-only, found none of them")
    request = ExportRequest(database=database, kafka=None if view_only else kafka, tenant_id=tenant, session_id=session)
    found: Exported | None = None
    try:
        with _bar() as tell, write_new(to) as stream:
            found = export_session(request, stream, tell)
            if found is None:
                raise _NothingError
    except _NothingError:
        click.echo(f"milepost: no session {session} of tenant {tenant}", err=True)
        return 1
    if as_json:
        print_json(found)
    else:
        print_facts([(name.replace("_", " "), getattr(found, name)) for name in found.__struct_fields__])
    return 0


@click.command("check-export")
@_file_argument
@json_option
def check(file: Path, as_json: bool) -> int:
    """Prove that an export is whole and agrees with itself, without a server. Exits with 1 when something does not fit.

    Who made it is not proved by this: compare the chain with what the view, a seal or an earlier export says.
    """
    with file.open("rb") as stream:
        found = check_export(stream)
    if as_json:
        print_json({"ok": found.ok, **{name: getattr(found, name) for name in found.__struct_fields__}})
    else:
        _print_check(found)
    return 0 if found.ok else 1


@click.command("import")
@_file_argument
@log_options
@click.option("--tenant", help="Under this tenant, instead of the export's.")
@click.option("--session", help="Under this session id, instead of the export's.")
@json_option
def import_export(file: Path, kafka: str, topic: str, tenant: str | None, session: str | None, as_json: bool) -> int:
    """Publish what an export holds: the same events under the same ids. It is checked first; exits with 1 when it does not fit.

    Into the log it came from it changes nothing but that every event is there twice. A view needs milepost consume then.
    """
    request = ImportRequest(kafka=kafka, topic=topic, tenant_id=tenant, session_id=session)
    with file.open("rb") as stream:
        done = import_session(request, stream)
    if isinstance(done, ExportCheck):
        _print_problems(done)
        click.echo("milepost: nothing was sent", err=True)
        return 1
    if as_json:
        print_json(done)
        return 0
    print_facts([(name.replace("_", " "), getattr(done, name)) for name in done.__struct_fields__])
    if done.left_out:
        click.echo(
            "milepost: the export lacks states; what was applied and is there was sent, so that the chain will be another",
            err=True,
        )
    return 0


class _NothingError(Exception):
    """There is nothing to write."""


def _print_check(found: ExportCheck) -> None:
    _print_problems(found)
    print_facts(
        [
            ("tenant", found.tenant_id),
            ("session", found.session_id),
            ("events", found.events),
            ("chain", found.chain),
            ("states", found.states),
            ("missing", found.missing),
            ("problems", found.problem_count),
            ("ok", found.ok),
        ]
    )


def _print_problems(found: ExportCheck) -> None:
    for problem in found.problems:
        click.echo(problem, err=True)
    if (more := found.problem_count - len(found.problems)) > 0:
        click.echo(f"… and {more} more", err=True)


@contextmanager
def _bar() -> Iterator[Tell | None]:
    """A bar on standard error, when that is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    with bars(console) as shown:
        task = shown.add_task("events", total=None)
        yield lambda done, total: shown.update(task, completed=done, total=total)


AUDIT_COMMANDS: Final = [export, check]
COMMANDS: Final = [import_export]
