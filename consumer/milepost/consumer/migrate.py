"""Migrations: numbered SQL files, applied in order under an advisory lock, each with its digest in a ledger."""

from __future__ import annotations

import logging
import re
from hashlib import sha256
from importlib.resources import files
from typing import Final

import msgspec

from milepost.consumer.database import Connection, has_schema, scalar
from milepost.consumer.operators import record
from milepost.schemas import WrongView

logger = logging.getLogger(__name__)

# any constant will do, as long as nobody else takes it: "milepost" in ASCII
LOCK: Final = int.from_bytes(b"milepost", "big") >> 1
_NAME = re.compile(r"(?P<number>[0-9]{4})_(?P<name>[a-z0-9_]+)\.sql")


class Migration(msgspec.Struct, frozen=True):
    """One numbered file."""

    number: int
    name: str
    sql: str

    @property
    def digest(self) -> bytes:
        """SHA-256 of the file."""
        return sha256(self.sql.encode()).digest()


def available() -> list[Migration]:
    """The migrations that this version brings, in order."""
    found = [
        Migration(int(match["number"]), match["name"], file.read_text(encoding="utf-8"))
        for file in files("milepost.consumer").joinpath("sql", "migrations").iterdir()
        if (match := _NAME.fullmatch(file.name)) is not None
    ]
    return sorted(found, key=lambda migration: migration.number)


def apply(connection: Connection, migrations: list[Migration] | None = None) -> list[Migration]:
    """Apply what is missing, all in one transaction, and return it. Safe to repeat, and to run several times at once.

    Raises `WrongView` when an applied migration was changed since, or the database is of a newer version.
    """
    wanted = available() if migrations is None else migrations
    with connection.transaction():
        connection.execute("select pg_advisory_xact_lock(%s)", [LOCK])
        if not has_schema(connection):
            _run(connection, _sql("ledger.sql"))
        missing = pending(connection, wanted)
        for migration in missing:
            _run(connection, migration.sql)
            connection.execute(
                "insert into milepost.migrations (number, name, sha256) values (%s, %s, %s)",
                [migration.number, migration.name, migration.digest],
            )
        if missing:
            record(connection, "setup", {"migrations": [f"{each.number:04d}_{each.name}" for each in missing]})
        _complete_roles(connection)
    return missing


def _complete_roles(connection: Connection) -> None:
    """Roles may have come since the migration, by somebody who may make them. Grants lock tables, so only when they lack."""
    missing = "select count(*) < 2 from pg_roles where rolname in ('milepost_writer', 'milepost_reader')"
    if scalar(connection, missing) is True:
        _run(connection, _sql("schema", "10_roles.sql"))
    lacking = (
        "select pg_has_role(current_user, relowner, 'usage') and exists (select from pg_roles r "
        "where rolname in ('milepost_writer', 'milepost_reader') and not has_schema_privilege(r.oid, 'milepost', 'usage')) "
        "from pg_class where oid = 'milepost.history'::regclass"
    )
    if scalar(connection, lacking) is True:
        _run(connection, _sql("schema", "11_privileges.sql"))
    bypass = "select rolbypassrls from pg_roles where rolname = 'milepost_writer'"
    if scalar(connection, bypass) is False:
        logger.warning(
            "the role milepost_writer lacks bypassrls, so that it writes through temporary tables, which is slower; "
            "as a superuser: alter role milepost_writer bypassrls"
        )


def _sql(*path: str) -> str:
    return files("milepost.consumer").joinpath("sql", *path).read_text(encoding="utf-8")


def pending(connection: Connection, wanted: list[Migration]) -> list[Migration]:
    """What of `wanted` is not applied yet. Raises `WrongView` when what is applied does not fit."""
    rows = connection.execute("select number, name, sha256 from milepost.migrations order by number").fetchall()
    known = {migration.number: migration for migration in wanted}
    for number, name, digest in rows:
        if number not in known:
            raise WrongView(
                f"the database has migration {number:04d}_{name}, this version of milepost knows {len(wanted)}: "
                "it was set up by a newer version; upgrade milepost"
            )
        if known[number].digest != digest:
            raise WrongView(
                f"migration {number:04d}_{name} was applied with the SHA-256 {digest.hex()}, "
                f"this version has {known[number].digest.hex()}: an applied migration must not change"
            )
    applied = {row[0] for row in rows}
    return [migration for migration in wanted if migration.number not in applied]


def require_current(connection: Connection) -> None:
    """Raise `WrongView` unless the database is set up for exactly this version."""
    if not has_schema(connection):
        raise WrongView("expected the schema milepost in the database, found none; run: milepost setup")
    if missing := pending(connection, available()):
        names = ", ".join(f"{migration.number:04d}_{migration.name}" for migration in missing)
        raise WrongView(f"the database is of an older version, without {names}; run: milepost setup")


def _run(connection: Connection, sql: str) -> None:
    # several statements at once need the simple protocol, which is what no parameters mean; the text is our own file
    connection.execute(sql.encode(), prepare=False)
