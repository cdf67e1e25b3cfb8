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
from psycopg.types.string import BytesBinaryDumper

from milepost.consumer.overlap import OverlappingConnection
from milepost.consumer.sqlstates import Meaning, meaning
from milepost.schemas import DatabaseUnavailable, InvalidSetting, MilepostError, WrongView

logger = logging.getLogger(__name__)

Connection = psycopg.Connection[TupleRow]

MINIMUM_SERVER: Final = 15_00_00
CONNECT_TIMEOUT_SECONDS: Final = 10

# no answer for so long ends a connection, which Linux would keep for hours: seconds, but for the last, in milliseconds
_KEEPALIVE: Final = {
    "keepalives_idle": "20",
    "keepalives_interval": "5",
    "keepalives_count": "4",
    "tcp_user_timeout": "40000",
}
# the schema or the privileges are not what this version needs
WRITER_NEEDS: Final = (
    "row-level security lets the members of milepost_writer write, and the owner of the tables; as a superuser: "
    "grant milepost_writer to the login"
)
_PASSING: Final = (Meaning.AWAY, Meaning.BUSY, Meaning.SCARCE)
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
# no SQLSTATE comes with a refused connection, only the server's text
_LOGIN: Final = re.compile(
    r'authentication failed|no pg_hba\.conf entry|no password supplied|role "[^"]*" (does not exist|is not permitted to log in)'
    r"|permission denied for database"
)


def connect(database: str, *, autocommit: bool = True, application: str = "milepost") -> OverlappingConnection:
    """A connection to the database of a conninfo.

    Raises `DatabaseUnavailable` when it cannot be had now, `InvalidSetting` for a text that is no conninfo, and
    `WrongView` for a server older than 15 or a database that is not UTF-8.
    """
    with translated(database):
        parameters = parse(database)
        parameters.setdefault("connect_timeout", str(CONNECT_TIMEOUT_SECONDS))
        parameters.setdefault("application_name", application)
        for name, value in _KEEPALIVE.items():
            parameters.setdefault(name, value)
        # with any other encoding the server would transcode what COPY brings, states too
        parameters["client_encoding"] = "UTF8"
        connection = OverlappingConnection.connect(conninfo.make_conninfo(**parameters), autocommit=autocommit)
        connection.add_notice_handler(_log_warning)
        # COPY uses the last one registered for bytea; that for DB-API's Binary runs in Python, and a row has eight such columns
        connection.adapters.register_dumper(bytes, BytesBinaryDumper)
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
            f"the role lacks a privilege in {where} ({text}): setup and policies need the owner of the schema; consume, "
            "quarantine, status, compare, audit gaps, verify, seal, acts and rekey the owner or milepost_writer; reading "
            "sessions needs milepost_reader; granted with inherit"
        )
    if state == "0A000" and "row-level security" in text:
        return WrongView(f"the role may not write in {where} ({text}): {WRITER_NEEDS}")
    if state in ("42P01", "3F000"):
        return WrongView(f"expected the schema milepost in {where}, found none ({text}); run: milepost setup")
    if state == "3D000" or _NO_DATABASE.search(text):
        return WrongView(f"expected the database of {where} to exist, found none; create it, then run: milepost setup")
    found = meaning(state)
    if found is Meaning.ACCESS or (not state and _LOGIN.search(text)):
        return WrongView(f"Postgres at {where} lets this login not in: {text}; see user, password and pg_hba.conf")
    if found is Meaning.SCHEMA:
        return WrongView(f"the database at {where} refused a statement of this version ({text}); run: milepost setup")
    # without a SQLSTATE it is the connection's, or a misuse of psycopg
    is_passing = isinstance(error, errors.OperationalError | errors.InterfaceError) if not state else found in _PASSING
    if is_passing:
        return DatabaseUnavailable(f"Postgres at {where} could not do it now: {text}")
    return MilepostError(f"Postgres at {where}: {text}")


def is_about_statement(error: BaseException) -> bool:
    """Whether Postgres answers, and only failed to do this: what one partition's records may bring about, and others not."""
    cause = error.__cause__
    if not isinstance(cause, psycopg.Error) or not cause.sqlstate:
        return False
    return meaning(cause.sqlstate) is not Meaning.AWAY


def is_scarce(error: BaseException) -> bool:
    """Whether Postgres lacks room, memory or connections: somebody has to do something."""
    cause = error.__cause__
    return isinstance(cause, psycopg.Error) and meaning(cause.sqlstate or "") is Meaning.SCARCE


def is_record_at_fault(error: psycopg.Error) -> bool:
    """Whether Postgres refused what a row holds, rather than failed to work."""
    return meaning(error.sqlstate or "") is Meaning.RECORD


def has_schema(connection: Connection) -> bool:
    """Whether the database holds a milepost view of any version."""
    return scalar(connection, "select to_regclass('milepost.migrations') is not null") is True


def scalar(connection: Connection, query: LiteralString, *parameters: object) -> object:
    """The one value that a query gives, or None when it gives no row."""
    row = connection.execute(query, parameters).fetchone()
    return row[0] if row is not None else None
