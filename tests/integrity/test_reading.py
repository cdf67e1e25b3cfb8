"""How a store with keys reads: asynchronously, as a reader of one tenant, by index, and no state that is not asked for."""

from __future__ import annotations

import asyncio
from typing import Any, LiteralString
from uuid import uuid4

import msgspec
import psycopg
import pytest
from psycopg import conninfo, sql

from milepost.consumer.async_store import AsyncCheckpointStore
from milepost.consumer.integrity import Keyring
from milepost.consumer.integrity.history import HistoryProof
from milepost.consumer.integrity.reads import KeyedReads
from milepost.consumer.reading import Read
from milepost.consumer.store import CheckpointStore
from milepost.schemas import InvalidSetting, Tampered
from tests.fixtures.view import FakeLog
from tests.integrity.conftest import Ground, put_back
from tests.integrity.ground import KEY, RUN, SignedView, checkpoint, execute
from tests.store.test_plans import nodes, plan

KEYED = KeyedReads(Keyring([KEY]))
READS: dict[str, Read[Any]] = {
    "get": KEYED.get("acme", "trip", "c8"),
    "get nothing": KEYED.get("acme", "trip", "never"),
    "latest": KEYED.latest("acme", "trip"),
    "list": KEYED.list_session("acme", "trip", None, 0, None, False),
    "list_by_run": KEYED.list_by_run("acme", RUN, None),
    "session": KEYED.session("acme", "trip"),
    "sessions": KEYED.sessions("acme", None, 100),
}


def test_the_asynchronous_store(ground: Ground) -> None:
    async def read() -> tuple[object, ...]:
        async with AsyncCheckpointStore(ground.database, integrity_keys=[KEY]) as store:
            return (
                await store.get("acme", "trip", "c6"),
                await store.latest("acme", "trip"),
                await store.list("acme", "trip"),
                await store.list_by_run("acme", RUN),
                await store.session("acme", "trip"),
                await store.sessions("acme"),
            )

    store = ground.store
    assert asyncio.run(read()) == (
        store.get("acme", "trip", "c6"),
        store.latest("acme", "trip"),
        store.list("acme", "trip"),
        store.list_by_run("acme", RUN),
        store.session("acme", "trip"),
        store.sessions("acme"),
    )
    execute(ground.database, "update milepost.checkpoints set parent_id = 'c1' where session_id = 'trip' and seq = 8")
    with pytest.raises(Tampered, match="parent_id: expected c7 as in history, found c1"):
        asyncio.run(read())


def test_a_reader_of_one_tenant(ground: Ground) -> None:
    name, password = f"reader_{uuid4().hex}", uuid4().hex
    role = sql.Identifier(name)
    with psycopg.connect(ground.database, autocommit=True) as connection:
        connection.execute(sql.SQL("create role {} login password {}").format(role, sql.Literal(password)))
        connection.execute(sql.SQL("grant milepost_reader to {}").format(role))
    database = conninfo.make_conninfo(ground.database, user=name, password=password)
    try:
        with CheckpointStore(database, integrity_keys=[KEY]) as store:
            assert store.latest("acme", "trip") == ground.store.latest("acme", "trip")
            assert store.list_by_run("acme", RUN) == ground.store.list_by_run("acme", RUN) != []
            assert store.session("acme", "empty") == ground.store.session("acme", "empty")
            assert store.get("other", "trip", "c8") is store.latest("other", "trip") is None
            assert store.session("other", "trip") is None
            execute(ground.database, "delete from milepost.sessions where session_id = 'trip'")
            with pytest.raises(Tampered, match="row: expected the head of a session that has events, found none"):
                store.session("acme", "trip")
    finally:
        with psycopg.connect(ground.database, autocommit=True) as connection:
            connection.execute(sql.SQL("drop role {}").format(role))


def test_reads_go_by_index_and_read_no_state_that_is_not_asked_for(ground: Ground) -> None:
    with psycopg.connect(ground.database, autocommit=True, prepare_threshold=None) as connection:
        # tables of a few rows deserve none
        connection.execute("set enable_seqscan = off")
        connection.execute("set plan_cache_mode = force_generic_plan")
        for name, read in READS.items():
            found = list(nodes(plan(connection, read)))
            scanned = {node["Relation Name"] for node in found if node["Node Type"] == "Seq Scan"}
            assert scanned <= {"partitions"}, name
            if name not in ("get", "get nothing", "latest"):
                outputs = [column for node in found for column in node.get("Output", ()) if "convert_to" in column]
                assert not any("state" in column for column in outputs), name


HISTORY: dict[LiteralString, str] = {
    "update milepost.history set step = 80 where session_id = 'trip' and seq = 3": "seq=3: chain: ",
    "update milepost.history set labels = '{}' where session_id = 'trip' and seq = 8": "seq=8: chain: ",
    "delete from milepost.history where session_id = 'trip' and seq = 3": "seq=3: row: expected 8 events",
    "delete from milepost.history where session_id = 'trip' and seq = 8": "seq=8: row: expected 8 events",
    "delete from milepost.history where session_id = 'trip'": "seq=1: row: expected 8 events",
    "update milepost.history h set step = 80, chain = o.chain from milepost.history o where h.session_id = 'trip' "
    "and o.session_id = 'other' and h.seq = 8 and o.seq = 8": "seq=8: chain: ",
    "alter table milepost.history alter chain drop not null; "
    "update milepost.history set chain = null where session_id = 'trip' and seq = 3": "seq=3: chain: .*found null",
}


def test_history_is_proved_by_the_head_s_chain(ground: Ground) -> None:
    assert ground.store.check_history("acme", "trip") == 8
    assert ground.store.check_history("acme", "gone") == 3
    assert ground.store.check_history("acme", "never") == 0
    for edit, problem in HISTORY.items():
        with psycopg.connect(ground.database) as connection:
            connection.execute("set session_replication_role = replica")
            connection.execute("create table now.history as table milepost.history")
            connection.execute(edit)
        try:
            with pytest.raises(Tampered, match=problem):
                ground.store.check_history("acme", "trip")
        finally:
            with psycopg.connect(ground.database) as connection:
                connection.execute("set session_replication_role = replica")
                put_back(connection, "history")
                connection.execute("drop table now.history")
    assert ground.store.check_history("acme", "trip") == 8


def test_a_chain_that_was_made_anew_ends_otherwise_than_the_head_s(ground: Ground) -> None:
    head = KEYED.head("acme", "trip")
    rows = ground.store._rows(head)
    facts = head.answer(rows)
    assert facts is not None
    proof = HistoryProof(msgspec.structs.replace(facts, chain=bytes(32)))
    assert proof.next is not None
    with pytest.raises(Tampered, match=f"seq=8: chain: expected {'00' * 32}, as the session's head says"):
        proof.next.answer(ground.store._rows(proof.next))


def test_history_is_proved_in_pages(database: str) -> None:
    log = FakeLog()
    view = SignedView(database)
    view.apply([log.append(checkpoint(number)) for number in range(1, 1_002)])
    view.close()
    with CheckpointStore(database, integrity_keys=[KEY]) as store:
        assert store.check_history("acme", "trip") == 1_001
    with (
        CheckpointStore(database) as store,
        pytest.raises(InvalidSetting, match="expected a store with integrity_keys"),
    ):
        store.check_history("acme", "trip")
