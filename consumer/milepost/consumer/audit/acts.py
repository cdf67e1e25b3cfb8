"""What operators did to a view: the rows of `milepost.operator_acts`, oldest first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from milepost.consumer import queries
from milepost.consumer.database import Connection

_AT_ONCE: Final = 500


class Act(msgspec.Struct, frozen=True):
    """One act. It stays for ever; a rebuilt view has acts of its own."""

    act_id: int
    at: datetime
    """By the server's clock; UTC."""
    login: str
    """Who logged in to Postgres."""
    acting_as: str
    """The role that was taken on, otherwise the login."""
    operator: str | None
    """Who sat there, by the client's word: user and host of the machine. None for what was done by hand."""
    application: str | None
    """What the client calls itself."""
    client_address: str | None
    """Where the connection came from, by the server's word; None for a socket on the server's own machine."""
    what: str
    """`retention set`, `quarantine retry` …: docs/audit.md lists them."""
    details: dict[str, Any]


_new_act: Final[Callable[..., Act]] = Act


def acts(connection: Connection, since: datetime | None = None) -> Iterator[Act]:
    """The acts, oldest first, read a page at a time; those since a moment, or all. They hang on people, not on the log."""
    with connection.transaction(), connection.cursor("acts", binary=True) as cursor:
        cursor.itersize = _AT_ONCE
        cursor.execute(queries.load("acts")["acts"], [since, since])
        for row in cursor:
            yield _new_act(row[0], row[1].astimezone(UTC), *row[2:8], msgspec.json.decode(row[8]))
