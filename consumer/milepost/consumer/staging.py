"""How a role writes that row-level security holds for: COPY may not write its tables, an INSERT may.

The rows go by COPY into a temporary table, which no row-level security holds for, and on in one statement. That is slower than
COPY alone, and for the plain owner of the tables only: `milepost_writer` has BYPASSRLS where it could be had.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final
from weakref import WeakSet

from psycopg import sql

from milepost.consumer.database import Connection, scalar
from milepost.consumer.rows import CHECKPOINT_COLUMNS, HISTORY_COLUMNS, MAC_COLUMNS

_TABLES: Final[Mapping[str, Mapping[str, str]]] = {
    "checkpoints": CHECKPOINT_COLUMNS | MAC_COLUMNS,
    "history": HISTORY_COLUMNS,
}
_staged: Final[WeakSet[Connection]] = WeakSet()
"""Connections that have the temporary tables."""


def stage(connection: Connection) -> bool:
    """Prepare a connection for writing where row-level security is in the way; False when its role may not insert at all."""
    if not scalar(connection, "select row_security_active('milepost.history')"):
        return True
    if not scalar(connection, "select has_table_privilege('milepost.history', 'insert')"):
        return False
    for table, columns in _TABLES.items():
        connection.execute(
            # without the table's constraints and generated columns: those are for where the rows end
            sql.SQL(
                "create temporary table {} on commit delete rows as select {} from milepost.{} with no data"
            ).format(sql.Identifier(_name(table)), _listed(columns), sql.Identifier(table))
        )
    _staged.add(connection)
    return True


def target(connection: Connection, table: str) -> sql.Identifier:
    """Where COPY writes the rows of a table."""
    return sql.Identifier("pg_temp", _name(table)) if connection in _staged else sql.Identifier("milepost", table)


def move(connection: Connection, table: str, columns: Iterable[str]) -> None:
    """Move what was copied to where it belongs, where it is not there already."""
    if connection in _staged:
        connection.execute(
            sql.SQL(
                "with copied as (delete from pg_temp.{} returning *) insert into milepost.{} ({}) select {} from copied"
            ).format(sql.Identifier(_name(table)), sql.Identifier(table), _listed(columns), _listed(columns))
        )


def _name(table: str) -> str:
    return f"staged_{table}"


def _listed(columns: Iterable[str]) -> sql.Composed:
    return sql.SQL(", ").join(sql.Identifier(name.strip('"')) for name in columns)
