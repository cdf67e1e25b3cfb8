"""`milepost retention`."""

from __future__ import annotations

from contextlib import closing
from typing import Final

import click

from milepost.consumer import policies
from milepost.consumer.cli.options import OrderedGroup, database_option, json_option
from milepost.consumer.cli.output import print_array, print_json, print_table
from milepost.consumer.database import connect, translated
from milepost.consumer.migrate import require_current

_COLUMNS: Final = ["tenant", "session", "newest", "max age (s)", "max bytes"]


@click.group("retention", cls=OrderedGroup)
def retention() -> None:
    """How many checkpoints of a session stay. The policies live in the database: every consumer obeys the same."""


@retention.command("show")
@database_option
@json_option
def show(database: str, as_json: bool) -> None:
    """Show all policies: the narrowest that fits a session holds."""
    with closing(connect(database)) as connection, translated(database):
        require_current(connection)
        found = policies.show(connection)
    if as_json:
        print_array(found)
    else:
        print_table(_COLUMNS, [_shown(row) for row in found], empty="no policy: newest 50 holds")


@retention.command("set")
@database_option
@click.option("--newest", type=click.IntRange(1), required=True, help="Keep so many; the newest always stays.")
@click.option("--tenant", help="For this tenant's sessions alone.")
@click.option("--session", help="For this session of the tenant alone.")
@click.option(
    "--max-age", type=float, metavar="SECONDS", help="Nor older than that, counted from the session's newest."
)
@click.option("--max-bytes", type=int, metavar="BYTES", help="Nor more than that in a session.")
@json_option
def set_policy(
    database: str,
    newest: int,
    tenant: str | None,
    session: str | None,
    max_age: float | None,
    max_bytes: int | None,
    as_json: bool,
) -> None:
    """Set a policy, in place of the one before. What was pruned comes back by a rebuild of the view alone."""
    row = policies.PolicyRow(tenant, session, newest, max_age, max_bytes)
    with closing(connect(database)) as connection, translated(database):
        require_current(connection)
        policies.set_policy(connection, row)
    if as_json:
        print_json(row)
    else:
        print_table(_COLUMNS, [_shown(row)], empty="")


def _shown(row: policies.PolicyRow) -> tuple[object, ...]:
    return row.tenant_id or "every", row.session_id or "every", row.newest, row.max_age_seconds, row.max_bytes


COMMANDS: Final = [retention]
