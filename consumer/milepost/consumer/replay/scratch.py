"""A database for the time of a replay that is made only to be compared."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from uuid import uuid4

import psycopg
from psycopg import conninfo, sql

from milepost.consumer.database import connect, parse, shown, translated
from milepost.schemas import WrongView


@contextmanager
def scratch_database(beside: str) -> Iterator[str]:
    """A new empty database on the server of a conninfo, as a conninfo; dropped afterwards.

    Raises `WrongView` when the role may not create databases.
    """
    name = f"milepost_verify_{uuid4().hex[:12]}"
    with closing(connect(beside, application="milepost-replay")) as connection, translated(beside):
        try:
            connection.execute(
                sql.SQL("create database {} encoding 'UTF8' template template0").format(sql.Identifier(name))
            )
        except psycopg.errors.InsufficientPrivilege as error:
            raise WrongView(
                f"the role may not create a database at {shown(beside)} to rebuild into; name an empty one with --into"
            ) from error
    try:
        yield conninfo.make_conninfo(**{**parse(beside), "dbname": name})
    finally:
        with closing(connect(beside, application="milepost-replay")) as connection, translated(beside):
            connection.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))
