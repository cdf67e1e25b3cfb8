"""`milepost audit acts`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import datetime
from itertools import chain, islice
from typing import Final

import click
import msgspec

from milepost.consumer.audit.acts import Act
from milepost.consumer.audit.acts import acts as read_acts
from milepost.consumer.cli.options import a_moment, database_option, json_option
from milepost.consumer.cli.output import print_array, print_table
from milepost.consumer.database import connect, translated
from milepost.consumer.migrate import require_current

_COLUMNS: Final = ["act", "at", "login", "acting as", "operator", "application", "from", "what", "details"]
_PAGE: Final = 500


@click.command("acts")
@database_option
@click.option(
    "--since", type=a_moment, metavar="TIME", help="Those at this time or later, such as 2026-11-30T12:00:00Z."
)
@json_option
def acts(database: str, since: datetime | None, as_json: bool) -> None:
    """Show what operators did to the view: who, when, from where, and what. Nobody can change it."""
    with closing(connect(database, application="milepost-audit")) as connection, translated(database):
        require_current(connection)
        found = read_acts(connection, since)
        if as_json:
            print_array(found)
            return
        print_table(_COLUMNS, _rows(islice(found, _PAGE)), empty="no act")
        while (first := next(found, None)) is not None:
            print_table(_COLUMNS, _rows(chain([first], islice(found, _PAGE - 1))), empty="")


def _rows(found: Iterable[Act]) -> Iterator[tuple[object, ...]]:
    for act in found:
        details = msgspec.json.encode({name: value for name, value in act.details.items() if value is not None})
        yield (
            act.act_id,
            act.at,
            act.login,
            act.acting_as,
            act.operator,
            act.application,
            act.client_address,
            act.what,
            details.decode(),
        )


COMMANDS: Final = [acts]
