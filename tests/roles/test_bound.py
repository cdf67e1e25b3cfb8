"""A reader's login may name any tenant, unless it is bound to one as docs/operating.md shows."""

from __future__ import annotations

import re
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg import conninfo, sql

from milepost.consumer import CheckpointStore
from milepost.consumer.compare import snapshot
from milepost.schemas import CheckpointCreated, WrongView
from tests.fixtures.view import FakeLog, PostgresView

PAGE = Path(__file__).parent.parent.parent / "docs" / "operating.md"
TABLES = ("sessions", "checkpoints", "history")


def tenants_seen(connection: psycopg.Connection, tenant_id: str) -> set[str]:
    connection.execute("select set_config('milepost.tenant_id', %s, false)", [tenant_id])
    queries = (sql.SQL("select tenant_id from milepost.{}").format(sql.Identifier(table)) for table in TABLES)
    return {found for query in queries for (found,) in connection.execute(query)}


def test_a_bound_login_reads_its_own_tenant_alone(database: str) -> None:
    login = f"acme_{uuid4().hex[:12]}"
    log, view = FakeLog(), PostgresView(database)
    for tenant in (login, "other"):
        view.apply([log.append(CheckpointCreated(tenant_id=tenant, session_id="s", state=b"1", checkpoint_id="c"))])
    view.close()
    reader = conninfo.make_conninfo(database, user=login, password=login)
    with psycopg.connect(database, autocommit=True) as owner:
        name = sql.Identifier(login)
        owner.execute(sql.SQL("create role {} login password {}").format(name, sql.Literal(login)))
        owner.execute(sql.SQL("grant milepost_reader to {}").format(name))
        owner.execute("insert into milepost.retention_policies (tenant_id, newest) values ('other', 3)")
        with psycopg.connect(reader, autocommit=True) as connection:
            assert tenants_seen(connection, "other") == {"other"}
        statements = re.findall(r"^create policy [^;]*;$", PAGE.read_text(), re.MULTILINE)
        assert len(statements) == 4
        for statement in statements:
            owner.execute(statement.encode())
        with psycopg.connect(reader, autocommit=True) as connection:
            assert tenants_seen(connection, "other") == set()
            assert tenants_seen(connection, login) == {login}
            connection.execute("set milepost.tenant_id = 'other'")
            policies = connection.execute("select tenant_id from milepost.retention_policies").fetchall()
            assert policies == [(None,)]
            connection.execute("set role milepost_reader")
            assert tenants_seen(connection, "other") == set()
        with CheckpointStore(reader) as store:
            assert store.latest("other", "s") is None
            assert store.latest(login, "s") is not None
        with pytest.raises(WrongView, match="audit gaps, verify, seal, acts and rekey the owner or milepost_writer"):
            snapshot(reader).__enter__()
        owner.execute(sql.SQL("drop role {}").format(name))
