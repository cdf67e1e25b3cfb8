"""A view with everything in it, and logins that hold one role each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from uuid import uuid4

import psycopg
import pytest
from psycopg import conninfo, sql

from milepost.schemas import CheckpointCreated, SessionDeleted
from tests.fixtures.servers import with_dbname
from tests.fixtures.view import FakeLog, PostgresView


class Logins(NamedTuple):
    """Conninfos of the same database."""

    superuser: str
    owner: str
    """The owner of the tables, no superuser, and no member of milepost_writer."""
    writer: str
    reader: str
    nobody: str
    """A login without a role."""


@pytest.fixture(scope="package")
def logins(postgres_conninfo: str, template: str) -> Iterator[Logins]:
    """Logins for a view with two tenants, a policy, a record in the quarantine, and acts. Tests leave it as it is."""
    name = f"test_{uuid4().hex[:12]}"
    database = with_dbname(postgres_conninfo, name)
    names = {role: f"{role}_{uuid4().hex[:12]}" for role in ("owner", "writer", "reader", "nobody")}
    with psycopg.connect(postgres_conninfo, autocommit=True) as server:
        server.execute(sql.SQL("create database {} template {}").format(*map(sql.Identifier, (name, template))))
        _fill(database)
        for login in names.values():
            server.execute(
                sql.SQL("create role {} login password {}").format(sql.Identifier(login), sql.Literal(login))
            )
        for role in ("writer", "reader"):
            server.execute(sql.SQL("grant {} to {}").format(*map(sql.Identifier, (f"milepost_{role}", names[role]))))
        with psycopg.connect(database) as connection:
            hand_over(connection, names["owner"])
        yield Logins(
            database,
            **{role: conninfo.make_conninfo(database, user=login, password=login) for role, login in names.items()},
        )
        server.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))
        for login in names.values():
            server.execute(sql.SQL("drop role {}").format(sql.Identifier(login)))


def _fill(database: str) -> None:
    log, view = FakeLog(), PostgresView(database)
    for tenant in ("acme", "other"):
        view.apply([log.append(CheckpointCreated(tenant_id=tenant, session_id="s", state=b"1", checkpoint_id="c"))])
        view.apply([log.append(SessionDeleted(tenant_id=tenant, session_id="gone"))])
    view.apply([log.append_raw(b"acme/s", b"no event", [])])
    view.close()
    with psycopg.connect(database) as connection:
        connection.execute("insert into milepost.retention_policies (tenant_id, newest) values ('other', 3)")


def hand_over(connection: psycopg.Connection, name: str) -> None:
    """Make somebody the owner of the schema and of all that is in it."""
    owner = sql.Identifier(name)
    connection.execute(sql.SQL("alter schema milepost owner to {}").format(owner))
    for kind, query in (
        (
            "table",
            "select oid::regclass::text from pg_class where relnamespace = 'milepost'::regnamespace and relkind = 'r'",
        ),
        ("function", "select oid::regprocedure::text from pg_proc where pronamespace = 'milepost'::regnamespace"),
        (
            "type",
            "select oid::regtype::text from pg_type where typnamespace = 'milepost'::regnamespace and typtype = 'e'",
        ),
    ):
        for (found,) in connection.execute(query).fetchall():
            connection.execute(sql.SQL("alter {} {} owner to {}").format(sql.SQL(kind), sql.SQL(found), owner))
