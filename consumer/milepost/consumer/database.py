"""Connections to Postgres, and what its errors mean for us."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, LiteralString

import psycopg
from psycopg import conninfo, errors
from psycopg.rows import TupleRow

from milepost.schemas import DatabaseUnavailable, InvalidSetting, MilepostError, WrongView

logger = logging.getLogger(__name__)

Connection = psycopg.Connection[TupleRow]

MINIMUM_SERVER: Final = 15_00_00
CONNECT_TIMEOUT_SECONDS: Final = 10

# what a retry of the same thing may mend: connection, resources, operator, locks, read-only server
_PASSING: Final = ("08", "53", "57", "58", "40", "55", "25")
# the schema or the privileges are not what this version needs
WRITER_NEEDS: Final = (
    "row-level security lets COPY pass for the owner of the tables alone, and for roles with BYPASSRLS; as a superuser: "
    "alter role milepost_writer bypassrls"
)
_MAY_HOLD_AT: Final = frozenset(
    {
        "user",
        "password",
        "passfile",
        "application_name",
        "fallback_application_name",
        "options",
        "sslcert",
        "sslkey",
        "sslpassword",
        "sslrootcert",
        "sslcrl",
        "sslcrldir",
    }
)
_NO_DATABASE: Final = re.compile(r'database "[^"]*" does not exist')
_SCHEMA: Final = ("42", "3F")


def connect(database: str, *, autocommit: bool = True, application: str = "milepost") -> Connection:
    """A connection to the database of a conninfo.

    Raises `DatabaseUnavailable` when it cannot be had now, `InvalidSetting` for a text that is no conninfo, and
    `WrongView` for a server older than 15 or a database that is not UTF-8.
    """
    with translated(database):
        parameters = parse(database)
        parameters.setdefault("connect_timeout", str(CONNECT_TIMEOUT_SECONDS))
        parameters.setdefault("application_name", application)
        # with any other encoding the server would transcode what COPY brings, states too
        parameters["client_encoding"] = "UTF8"
        connection = psycopg.connect(conninfo.make_conninfo(**parameters), autocommit=autocommit)
        connection.add_notice_handler(_log_warning)
    try:
        _check_server(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _log_warning(notice: psycopg.errors.Diagnostic) -> None:
    if notice.severity_nonlocalized == "WARNING":
        logger.warning("Postgres: %s", notice.message_primary)


def _check_server(connection: Connection) -> None:
    version = connection.info.server_version
    if version < MINIMUM_SERVER:
        raise WrongView(f"expected Postgres 15 or later, found {version // 10_000}.{version % 10_000}")
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise WrongView(
            f"expected a database with the encoding UTF8, found {encoding}: a state could not keep its bytes; "
            "create one with: create database milepost encoding 'UTF8' template template0"
        )


def parse(database: str) -> dict[str, str]:
    """The parameters of a conninfo (URI or key=value). Raises `InvalidSetting` without repeating what may hold a password."""
    try:
        found = conninfo.conninfo_to_dict(database)
    except psycopg.ProgrammingError:
        raise InvalidSetting(
            "database: expected a Postgres conninfo such as postgresql://user@host:5432/milepost, found something else"
        ) from None
    parameters = {name: str(value) for name, value in found.items() if value is not None}
    # a / or ? in a password ends the server's part there, and what follows lands in the other parameters
    if any("@" in value for name, value in parameters.items() if name not in _MAY_HOLD_AT):
        raise InvalidSetting(
            "database: found an @ where none belongs: write @ as %40, / as %2F and ? as %3F in user and password"
        )
    for name in ("port", "connect_timeout"):
        if not all(part.isdecimal() for part in parameters.get(name, "0").split(",") if part):
            # which may be a piece of a password, so it is not repeated
            raise InvalidSetting(
                f"database: {name}: expected a number, found something else; write : as %3A, @ as %40 and / as %2F in user "
                "and password"
            )
    return parameters


def shown(database: str) -> str:
    """Where a conninfo points, without user or password."""
    try:
        found = parse(database)
    except InvalidSetting:
        return "the given database"
    host = found.get("host", found.get("hostaddr", "the local socket"))
    return f"{host}:{found.get('port', '5432')}/{found.get('dbname', '')}"


@contextmanager
def translated(database: str) -> Iterator[None]:
    """Turn psycopg's errors into milepost's: what to retry, what to set up, and never a password in the text."""
    try:
        yield
    except MilepostError:
        raise
    except errors.Error as error:
        raise translate(error, database) from error


def translate(error: psycopg.Error, database: str) -> MilepostError:
    """The error of milepost that says what an error of psycopg means."""
    state = error.sqlstate or ""
    where = shown(database)
    text = " ".join(str(error).split())
    if state == "42501":
        return WrongView(
            f"the role lacks a privilege in {where} ({text}): setup needs the owner of the schema, consuming needs "
            "milepost_writer and reading needs milepost_reader, granted with inherit"
        )
    if state == "0A000" and "row-level security" in text:
        return WrongView(f"the role may not write in {where} ({text}): {WRITER_NEEDS}")
    if state in ("42P01", "3F000"):
        return WrongView(f"expected the schema milepost in {where}, found none ({text}); run: milepost setup")
    # a refused connection has no SQLSTATE, only the server's text
    if state == "3D000" or _NO_DATABASE.search(text):
        return WrongView(f"expected the database of {where} to exist, found none; create it, then run: milepost setup")
    if state.startswith(_SCHEMA):
        return WrongView(f"the database at {where} refused a statement of this version ({text}); run: milepost setup")
    if isinstance(error, errors.OperationalError | errors.InterfaceError) or state.startswith(_PASSING):
        return DatabaseUnavailable(f"Postgres at {where} could not do it now: {text}")
    return MilepostError(f"Postgres at {where}: {text}")


def is_record_at_fault(error: psycopg.Error) -> bool:
    """Whether Postgres refused what a row holds (SQLSTATE classes 22, 23, 54), rather than failed to work.

    A key that is there already says something of the view, not of the record.
    """
    state = error.sqlstate or ""
    return state.startswith(("22", "23", "54")) and state != "23505"


def has_schema(connection: Connection) -> bool:
    """Whether the database holds a milepost view of any version."""
    return scalar(connection, "select to_regclass('milepost.migrations') is not null") is True


def scalar(connection: Connection, query: LiteralString, *parameters: object) -> object:
    """The one value that a query gives, or None when it gives no row."""
    row = connection.execute(query, parameters).fetchone()
    return row[0] if row is not None else None
