"""Stores over the caller's pool, whatever its connections are set up for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any
from zoneinfo import ZoneInfo

import psycopg
import pytest
from psycopg.adapt import Loader
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from milepost.consumer.async_store import AsyncCheckpointStore
from milepost.consumer.store import CheckpointStore
from milepost.schemas import CheckpointCreated, DatabaseUnavailable
from tests.fixtures.view import FakeLog, PostgresView
from tests.store.test_servers import end_connections

STATE = '{"$type":0, "ключ":1.0}'.encode()
ODD = "-c datestyle=German -c bytea_output=escape -c intervalstyle=iso_8601 -c extra_float_digits=-5"
SETTINGS: dict[str, dict[str, Any]] = {
    "autocommit": {"autocommit": True},
    "dict_row, autocommit off": {"row_factory": dict_row, "autocommit": False},
    "client cursors": {"cursor_factory": psycopg.ClientCursor},
    "another encoding": {"client_encoding": "latin1"},
    "another time zone": {"options": "-c timezone=Pacific/Kiritimati"},
    "odd formats": {"options": ODD},
    "a transaction pooler": {"prepare_threshold": None, "autocommit": True},
}


class Backwards(Loader):
    """A loader of the caller's own."""

    def load(self, data: Any) -> str:
        return bytes(data).decode()[::-1]


def take_apart(connection: psycopg.BaseConnection[Any]) -> None:
    for name in ("uuid", "text", "json", "jsonb", "timestamptz", "int8", "bytea"):
        connection.adapters.register_loader(name, Backwards)


@pytest.fixture
def expected(database: str, filled: PostgresView, log: FakeLog) -> Iterator[list[object]]:
    """What is found by a store of its own connections."""
    events = [
        CheckpointCreated(tenant_id="acme", session_id="s", state=STATE, checkpoint_id=name, labels={"kind": name})
        for name in ("a", "b")
    ]
    filled.apply([log.append(event) for event in events])
    with CheckpointStore(database) as store:
        yield read(store)


def read(store: CheckpointStore) -> list[object]:
    return [
        store.get("acme", "s", "a"),
        store.latest("acme", "s"),
        store.list("acme", "s", limit=1),
        store.session("acme", "s"),
        store.history("acme", "s"),
    ]


async def read_async(store: AsyncCheckpointStore) -> list[object]:
    return [
        await store.get("acme", "s", "a"),
        await store.latest("acme", "s"),
        await store.list("acme", "s", limit=1),
        await store.session("acme", "s"),
        await store.history("acme", "s"),
    ]


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_any_connection_will_do(database: str, expected: list[object], settings: dict[str, Any]) -> None:
    with ConnectionPool(database, kwargs=settings, min_size=1, open=True) as pool:
        store = CheckpointStore(pool)
        assert read(store) == expected
        assert read(store) == expected


@pytest.mark.parametrize("settings", [s for s in SETTINGS.values() if "cursor_factory" not in s])
def test_any_asynchronous_connection_will_do(database: str, expected: list[object], settings: dict[str, Any]) -> None:
    async def read_twice() -> None:
        async with AsyncConnectionPool(database, kwargs=settings, min_size=1, open=False) as pool:
            store = AsyncCheckpointStore(pool)
            assert await read_async(store) == expected
            assert await read_async(store) == expected

    asyncio.run(read_twice())


def test_loaders_of_the_caller_s_own(database: str, expected: list[object]) -> None:
    with ConnectionPool(database, configure=take_apart, min_size=1, open=True) as pool:
        assert read(CheckpointStore(pool)) == expected


def test_times_are_in_utc(database: str, expected: list[object]) -> None:
    with ConnectionPool(database, kwargs=SETTINGS["another time zone"], min_size=1, open=True) as pool:
        with pool.connection() as connection:
            row = connection.execute("select now()").fetchone()
            assert row is not None
            assert row[0].tzinfo == ZoneInfo("Pacific/Kiritimati")
        (info,) = CheckpointStore(pool).list("acme", "s", limit=1)
    assert str(info.created_at.tzinfo) == str(info.log_time.tzinfo) == "UTC"


def prepared(pool: ConnectionPool[Any]) -> int:
    with pool.connection() as connection:
        row = connection.execute("select count(*) from pg_prepared_statements", prepare=False).fetchone()
        assert row is not None
        return int(row[0])


def test_statements_are_prepared_unless_the_pool_says_otherwise(database: str, expected: list[object]) -> None:
    for threshold, count in ((5, 5), (None, 0)):
        kwargs = {"prepare_threshold": threshold, "autocommit": True}
        with ConnectionPool(database, kwargs=kwargs, min_size=1, max_size=1, open=True) as pool:
            assert read(CheckpointStore(pool)) == expected
            assert prepared(pool) == count


def test_the_pool_stays_the_caller_s(database: str, expected: list[object]) -> None:
    with ConnectionPool(database, min_size=1, open=True) as pool:
        with CheckpointStore(pool) as store:
            assert read(store) == expected
        assert read(CheckpointStore(pool)) == expected


def test_connections_that_were_ended(database: str, expected: list[object]) -> None:
    kwargs = {"application_name": "a pool", "autocommit": True}
    with ConnectionPool(database, kwargs=kwargs, min_size=4, open=True) as pool:
        pool.wait()
        store = CheckpointStore(pool)
        for _ in range(3):
            assert end_connections(database) >= 1
            assert store.latest("acme", "s") == expected[1]


def test_asynchronous_connections_that_were_ended(database: str, expected: list[object]) -> None:
    async def read_after_each_end() -> None:
        kwargs = {"application_name": "a pool", "autocommit": True}
        async with AsyncConnectionPool(database, kwargs=kwargs, min_size=4, open=False) as pool:
            await pool.wait()
            store = AsyncCheckpointStore(pool)
            for _ in range(3):
                assert await asyncio.to_thread(end_connections, database) >= 1
                assert await store.latest("acme", "s") == expected[1]

    asyncio.run(read_after_each_end())


def test_a_pool_without_a_free_connection(database: str) -> None:
    with ConnectionPool(database, min_size=1, max_size=1, timeout=0.05, open=True) as pool:
        pool.wait()
        store = CheckpointStore(pool)
        with pool.connection(), pytest.raises(DatabaseUnavailable, match=r"couldn't get a connection after 0\.05 sec"):
            store.latest("acme", "s")


@pytest.mark.parametrize("close", [lambda pool: None, lambda pool: pool.close()], ids=["not open", "closed"])
def test_a_pool_that_is_not_open(database: str, close: Callable[[ConnectionPool[Any]], None]) -> None:
    pool = ConnectionPool(database, open=False)
    close(pool)
    with pytest.raises(DatabaseUnavailable, match="pool"):
        CheckpointStore(pool).latest("acme", "s")
