"""The state of any checkpoint that ever was, from the log by its position in history."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from milepost.consumer import AsyncCheckpointStore, CheckpointStore, LoggedState
from milepost.schemas import CorruptState, WrongLog
from tests.audit_export.conftest import LIVE, SESSION, STATES, TENANT, Ground


def test_each_state_ever(ground: Ground) -> None:
    with CheckpointStore(ground.database) as store:
        for entry in store.history(TENANT, SESSION):
            if entry.checkpoint_id is not None:
                found = store.state_from_log(TENANT, SESSION, entry.checkpoint_id, kafka=ground.kafka, seq=entry.seq)
                assert found == LoggedState(entry, STATES[entry.seq])
        # the latest that was applied: neither the conflict nor what was before the deletion
        again = store.state_from_log(TENANT, SESSION, "a", kafka=ground.kafka)
        assert again is not None
        assert (again.entry.seq, again.state) == (7, b"[6]")
        stale = store.state_from_log(TENANT, SESSION, "late", kafka=ground.kafka)
        assert stale is not None
        assert stale.state == b'"stale"'
        assert store.state_from_log(TENANT, SESSION, "nobody", kafka=ground.kafka) is None
        assert store.state_from_log(TENANT, SESSION, "a", kafka=ground.kafka, seq=4) is None
        assert store.state_from_log("other", SESSION, "a", kafka=ground.kafka) is None
        for checkpoint_id, state in LIVE.items():
            live = store.get(TENANT, SESSION, checkpoint_id)
            assert live is not None
            assert live.state == state
        assert {info.checkpoint_id for info in store.list(TENANT, SESSION)} == LIVE.keys()


def test_the_asynchronous_store(ground: Ground) -> None:
    async def read() -> LoggedState | None:
        async with AsyncCheckpointStore(ground.database) as store:
            return await store.state_from_log(TENANT, SESSION, "e", kafka=ground.kafka)

    found = asyncio.run(read())
    assert found is not None
    assert found.state == STATES[11]


def test_a_history_that_was_changed_does_not_pass(own: Ground) -> None:
    with psycopg.connect(own.database, autocommit=True) as connection:
        connection.execute("set session_replication_role = replica")
        connection.execute("update milepost.history set sha256 = sha256('x') where seq = 9")
        connection.execute('update milepost.history set "offset" = "offset" - 1 where seq = 10')
        connection.execute("update milepost.history set topic = topic, partition = 99 where seq = 11")
    with CheckpointStore(own.database) as store:
        with pytest.raises(CorruptState, match="expected the event"):
            store.state_from_log(TENANT, SESSION, "c", kafka=own.kafka)
        with pytest.raises(CorruptState, match="expected the event"):
            store.state_from_log(TENANT, SESSION, "d", kafka=own.kafka)
        with pytest.raises(WrongLog, match="expected one of the 4 partitions"):
            store.state_from_log(TENANT, SESSION, "e", kafka=own.kafka)
    with psycopg.connect(own.database, autocommit=True) as connection:
        connection.execute("update milepost.partitions set topic_id = 'another'")
    with CheckpointStore(own.database) as store, pytest.raises(WrongLog, match="created again"):
        store.state_from_log(TENANT, SESSION, "a", kafka=own.kafka)
