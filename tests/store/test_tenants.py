"""Row-level security: a login role in milepost_reader sees the tenant it names, and no other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import conninfo, sql
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from milepost.consumer.async_store import AsyncCheckpointStore
from milepost.consumer.store import CheckpointStore
from milepost.schemas import CheckpointCreated
from tests.fixtures.view import FakeLog, PostgresView

RUN = UUID(int=7)
TABLES = ("sessions", "checkpoints", "history")


@pytest.fixture
def reader(database: str, filled: PostgresView, log: FakeLog) -> Iterator[str]:
    """The conninfo of a reader, with two tenants in the view."""
    events = [
        CheckpointCreated(
            tenant_id=tenant, session_id="s", state=b'"%s"' % tenant.encode(), checkpoint_id="c", run_id=RUN
        )
        for tenant in ("acme", "other")
    ]
    filled.apply([log.append(event) for event in events])
    name, password = f"reader_{uuid4().hex}", uuid4().hex
    role = sql.Identifier(name)
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(sql.SQL("create role {} login password {}").format(role, sql.Literal(password)))
        connection.execute(sql.SQL("grant milepost_reader to {}").format(role))
    yield conninfo.make_conninfo(database, user=name, password=password)
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(sql.SQL("drop role {}").format(role))


def check(store: CheckpointStore) -> None:
    """Each tenant's own, in turn, on the same connection."""
    for tenant in ("acme", "other", "acme"):
        expected = b'"%s"' % tenant.encode()
        found, latest = store.get(tenant, "s", "c"), store.latest(tenant, "s")
        assert found is not None
        assert found.state == expected
        assert latest == found
        assert [info.tenant_id for info in store.list(tenant, "s")] == [tenant]
        assert [info.tenant_id for info in store.list_by_run(tenant, RUN)] == [tenant]
        assert [info.tenant_id for info in store.sessions(tenant)] == [tenant]
        assert [entry.tenant_id for entry in store.history(tenant, "s")] == [tenant]
        store.wait_for(found.position, 0)
    assert store.latest("nobody", "s") is None
    assert store.latest("", "s") is None


def test_a_reader_s_store(opener: Callable[[str], CheckpointStore], reader: str) -> None:
    with opener(reader) as store:
        check(store)


@pytest.mark.parametrize("autocommit", [True, False])
def test_a_reader_s_pool(reader: str, autocommit: bool) -> None:
    kwargs = {"autocommit": autocommit, "row_factory": dict_row}
    with ConnectionPool(reader, kwargs=kwargs, min_size=1, max_size=1, open=True) as pool:
        check(CheckpointStore(pool))
        with pool.connection() as connection:
            row = connection.execute("select current_setting('milepost.tenant_id', true) as tenant").fetchone()
    assert row is not None
    assert not row["tenant"]  # type: ignore[call-overload]


@pytest.mark.parametrize("autocommit", [True, False])
def test_a_reader_s_asynchronous_pool(reader: str, autocommit: bool) -> None:
    async def read() -> list[bytes | None]:
        async with AsyncConnectionPool(reader, kwargs={"autocommit": autocommit}, min_size=2, open=False) as pool:
            store = AsyncCheckpointStore(pool)
            tenants = ["acme", "other", "nobody"] * 20
            found = await asyncio.gather(*[store.latest(tenant, "s") for tenant in tenants])
            return [checkpoint.state if checkpoint is not None else None for checkpoint in found]

    assert asyncio.run(read()) == [b'"acme"', b'"other"', None] * 20


@pytest.mark.parametrize("table", TABLES)
def test_a_reader_s_own_sql(reader: str, table: str) -> None:
    query = sql.SQL("select distinct tenant_id from milepost.{}").format(sql.Identifier(table))
    with psycopg.connect(reader, autocommit=True) as connection:
        assert connection.execute(query).fetchall() == []
        for tenant in ("acme", "other"):
            connection.execute("select set_config('milepost.tenant_id', %s, false)", [tenant])
            assert connection.execute(query).fetchall() == [(tenant,)]


@pytest.mark.parametrize("table", [*TABLES, "partitions"])
def test_a_reader_changes_nothing(reader: str, table: str) -> None:
    with psycopg.connect(reader, autocommit=True) as connection:
        for statement in ("delete from milepost.{}", "update milepost.{} set partition = 0", "truncate milepost.{}"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(sql.SQL(statement).format(sql.Identifier(table)))


def test_a_reader_s_read_is_one_round_trip(reader: str, tmp_path: Path) -> None:
    with CheckpointStore(reader) as store, (tmp_path / "trace").open("w+b") as trace:
        expected = store.latest("acme", "s")
        [borrowed] = store._connections._idle  # type: ignore[attr-defined]
        pgconn = borrowed.connection.pgconn
        pgconn.trace(trace.fileno())
        assert store.latest("acme", "s") == expected is not None
        pgconn.untrace()
        trace.seek(0)
        messages = [line.split(b"\t")[3].strip() for line in trace.read().splitlines() if b"\tF\t" in line]
    assert messages.count(b"Sync") == 1
    assert messages.count(b"Execute") == 2
