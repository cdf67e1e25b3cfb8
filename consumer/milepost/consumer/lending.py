"""What the synchronous and the asynchronous connections of a store have in common."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import psycopg
from psycopg import conninfo
from psycopg.pq import TransactionStatus

from milepost.consumer.database import CONNECT_TIMEOUT_SECONDS, parse
from milepost.consumer.reading import Row
from milepost.schemas import DatabaseUnavailable

MAX_CONNECTIONS: Final = 10
"""How many connections a store makes of a conninfo at most. For another number, give it a pool."""
BUSY_SECONDS: Final = 30
"""How long a read waits for one of them to come free; psycopg_pool waits as long."""

_LARGE_VALUE_BYTES: Final = 1024 * 1024
_UNKNOWN_STATEMENT: Final = ("26000", "42P05")
_TERMINATED: Final = "57P"


def own_conninfo(database: str) -> str:
    """The conninfo of a store's own connections. Raises `InvalidSetting` for a text that is none; touches no network."""
    parameters = parse(database)
    parameters.setdefault("connect_timeout", str(CONNECT_TIMEOUT_SECONDS))
    parameters.setdefault("application_name", "milepost-store")
    parameters["client_encoding"] = "UTF8"
    return conninfo.make_conninfo(**parameters)


def pool_conninfo(pool: object) -> str:
    """Where a pool's connections go, for messages."""
    given, settings = getattr(pool, "conninfo", ""), getattr(pool, "kwargs", None)
    named = {name: settings[name] for name in ("host", "port", "dbname") if settings and name in settings}
    with suppress(psycopg.ProgrammingError):
        return conninfo.make_conninfo(given if isinstance(given, str) else "", **named)
    return ""


def is_reusable(connection: psycopg.BaseConnection[Any]) -> bool:
    """Whether a connection stands as it was lent: open, and in no transaction."""
    return connection.pgconn.transaction_status == TransactionStatus.IDLE


def is_lost(connection: psycopg.BaseConnection[Any], error: psycopg.Error) -> bool:
    """Whether the server ended the connection: the same read on another one may do."""
    return connection.closed or (error.sqlstate or "").startswith(_TERMINATED)


def is_unprepared(error: psycopg.Error) -> bool:
    """Whether a prepared statement is not where it was made: a transaction pooler has changed the server's end."""
    return error.sqlstate in _UNKNOWN_STATEMENT


def is_large(rows: Sequence[Row]) -> bool:
    """Whether a cursor should not keep this result. States come last in a row."""
    return bool(rows) and isinstance(rows[0][-1], bytes) and len(rows[0][-1]) > _LARGE_VALUE_BYTES


def busy() -> DatabaseUnavailable:
    """What to raise when no connection came free."""
    return DatabaseUnavailable(
        f"all {MAX_CONNECTIONS} connections of the store were in use for {BUSY_SECONDS} s; give it a larger pool"
    )
