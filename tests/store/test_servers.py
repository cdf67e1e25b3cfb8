"""What a store does about a real server: one that is away, one that hangs up, one that is no view."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg import conninfo

from milepost.consumer.async_store import AsyncCheckpointStore
from milepost.consumer.lending import MAX_CONNECTIONS
from milepost.consumer.store import CheckpointStore
from milepost.schemas import (
    CheckpointCreated,
    CorruptState,
    DatabaseUnavailable,
    InvalidSetting,
    Position,
    WrongView,
)
from tests.fixtures.view import FakeLog, PostgresView

Opener = Callable[[str], CheckpointStore]
SECRET = "hunter2-hunter2"


def publish(view: PostgresView, log: FakeLog, *, session_id: str = "s", state: bytes = b"{}", count: int = 1) -> None:
    events = [CheckpointCreated(tenant_id="acme", session_id=session_id, state=state) for _ in range(count)]
    view.apply([log.append(event) for event in events])


def end_connections(database: str) -> int:
    """Have the server end every connection of a store, as a restart does. How many there were."""
    with psycopg.connect(database, autocommit=True) as connection:
        found = connection.execute(
            "select pg_terminate_backend(pid, 10000) from pg_stat_activity "
            "where datname = current_database() and application_name in ('milepost-store', 'a pool')"
        ).fetchall()
    return len(found)


def closed_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def test_a_server_that_is_away(opener: Opener) -> None:
    port = closed_port()
    with opener(f"postgresql://someone:{SECRET}@127.0.0.1:{port}/milepost") as store:
        for _ in range(2):
            begun = time.monotonic()
            with pytest.raises(DatabaseUnavailable) as raised:
                store.latest("acme", "s")
            assert time.monotonic() - begun < 5
            assert f"127.0.0.1:{port}/milepost" in str(raised.value)
            assert "refused" in str(raised.value).lower()
            assert SECRET not in str(raised.value)


def test_a_server_that_does_not_answer(opener: Opener) -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        port = deaf.getsockname()[1]
        store = opener(f"host=127.0.0.1 port={port} dbname=milepost connect_timeout=2")
        with store, pytest.raises(DatabaseUnavailable, match="timeout"):
            store.latest("acme", "s")


def test_a_wrong_password_is_not_repeated(opener: Opener, database: str) -> None:
    with opener(f"{database} options=-csearch_path=x user=nobody-of-that-name password={SECRET}") as store:
        with pytest.raises(WrongView, match="nobody-of-that-name") as raised:
            store.latest("acme", "s")
        assert SECRET not in f"{raised.value} {raised.value.__cause__}"


def test_no_conninfo(opener: Opener) -> None:
    with pytest.raises(InvalidSetting, match="expected a Postgres conninfo") as raised:
        opener(f"nonsense {SECRET}")
    assert SECRET not in str(raised.value)


def test_neither_conninfo_nor_pool() -> None:
    with pytest.raises(InvalidSetting, match="database: expected a conninfo or a ConnectionPool, found int"):
        CheckpointStore(5432)  # type: ignore[arg-type]
    with pytest.raises(InvalidSetting, match="database: expected a conninfo or an AsyncConnectionPool, found NoneType"):
        AsyncCheckpointStore(None)  # type: ignore[arg-type]


def test_no_view_in_the_database(opener: Opener, postgres_conninfo: str) -> None:
    with opener(postgres_conninfo) as store:
        for read in (
            lambda: store.get("acme", "s", "c"),
            lambda: store.sessions("acme"),
            lambda: store.wait_for(Position("milepost.events", 0, 0), 1),
        ):
            with pytest.raises(WrongView, match="run: milepost setup"):
                read()


def test_no_such_database(opener: Opener, postgres_conninfo: str) -> None:
    store = opener(conninfo.make_conninfo(postgres_conninfo, dbname="no_such_database"))
    with store, pytest.raises((WrongView, DatabaseUnavailable), match="no_such_database"):
        store.latest("acme", "s")


def test_no_log_yet(opener: Opener, database: str) -> None:
    with opener(database) as store:
        assert store.latest("acme", "s") is None
        with pytest.raises(TimeoutError, match="has not begun to read a log"):
            store.wait_for(Position("milepost.events", 0, 0), 0)


def test_connections_that_were_ended(opener: Opener, database: str, filled: PostgresView, log: FakeLog) -> None:
    publish(filled, log)
    with opener(database) as store:
        expected = store.latest("acme", "s")
        for _ in range(3):
            assert end_connections(database) == 1
            assert store.latest("acme", "s") == expected is not None


def test_all_of_many_connections_were_ended(database: str, filled: PostgresView, log: FakeLog) -> None:
    publish(filled, log)
    with CheckpointStore(database) as store, ThreadPoolExecutor(8) as threads:
        together = threading.Barrier(8)

        def read(_: int) -> object:
            together.wait()
            return store.latest("acme", "s")

        expected = store.latest("acme", "s")
        for _ in range(3):
            assert list(threads.map(read, range(8))) == [expected] * 8
            assert 1 <= end_connections(database) <= MAX_CONNECTIONS
            assert list(threads.map(read, range(8))) == [expected] * 8


def test_many_threads_share_few_connections(database: str, filled: PostgresView, log: FakeLog) -> None:
    publish(filled, log, count=50)
    with CheckpointStore(database) as store, ThreadPoolExecutor(30) as threads:
        found = list(threads.map(lambda _: len(store.list("acme", "s")), range(300)))
        assert found == [50] * 300
        assert 1 <= end_connections(database) <= MAX_CONNECTIONS


def test_many_tasks_share_few_connections(database: str, filled: PostgresView, log: FakeLog) -> None:
    publish(filled, log, count=50)

    async def read_all() -> list[int]:
        async with AsyncCheckpointStore(database) as store:
            found = await asyncio.gather(*[store.list("acme", "s") for _ in range(300)])
            assert 1 <= await asyncio.to_thread(end_connections, database) <= MAX_CONNECTIONS
            return [len(infos) for infos in found]

    assert asyncio.run(read_all()) == [50] * 300


def test_a_cancelled_read_leaves_the_store_in_order(database: str, filled: PostgresView, log: FakeLog) -> None:
    publish(filled, log)

    async def cancel_reads() -> None:
        async with AsyncCheckpointStore(database) as store:
            expected = await store.latest("acme", "s")
            with psycopg.connect(database) as lock:
                lock.execute("lock table milepost.checkpoints in access exclusive mode")
                for _ in range(MAX_CONNECTIONS + 1):
                    with pytest.raises(TimeoutError):
                        await asyncio.wait_for(store.latest("acme", "s"), 0.02)
            assert await store.latest("acme", "s") == expected is not None

    asyncio.run(cancel_reads())


def test_prepared_statements_that_are_gone(opener: Opener, database: str, filled: PostgresView, log: FakeLog) -> None:
    """As behind a pooler that gives each transaction another connection of the server's."""
    publish(filled, log)
    with opener(database) as store:
        expected = store.latest("acme", "s")
        [borrowed] = store._connections._idle  # type: ignore[attr-defined]
        borrowed.connection.pgconn.exec_(b"deallocate all")
        assert store.latest("acme", "s") == expected is not None
        assert not store._prepare


def test_a_large_state_is_not_kept(opener: Opener, database: str, filled: PostgresView, log: FakeLog) -> None:
    state = b'"' + b"x" * (16 * 1024 * 1024 - 2) + b'"'
    publish(filled, log, state=state)
    with opener(database) as store:
        found = store.latest("acme", "s")
        assert found is not None
        assert found.state == state
        [borrowed] = store._connections._idle  # type: ignore[attr-defined]
        assert borrowed._cursor.pgresult is None


def test_a_state_that_was_changed(opener: Opener, database: str, filled: PostgresView, log: FakeLog) -> None:
    publish(filled, log, state=b'{"a":1}')
    with opener(database) as store:
        found = store.latest("acme", "s")
        assert found is not None
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute("""update milepost.checkpoints set state = '{"a": 1}'""")
        reads: list[Callable[[], object]] = [
            lambda: store.get("acme", "s", found.checkpoint_id),
            lambda: store.latest("acme", "s"),
        ]
        for read in reads:
            with pytest.raises(CorruptState) as raised:
                read()
            for part in (found.checkpoint_id, "tenant acme", "session s", "seq 1", str(found.position)):
                assert part in str(raised.value)
            assert f"expected a state with the SHA-256 {found.sha256.hex()}, found 8 bytes with " in str(raised.value)
        assert [info.checkpoint_id for info in store.list("acme", "s")] == [found.checkpoint_id]
