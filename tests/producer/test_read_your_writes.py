"""Read your writes: publish, wait until the view has passed the position, read. With a real consumer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from milepost.consumer import AsyncCheckpointStore, CheckpointStore
from milepost.producer import CheckpointPublisher
from milepost.schemas import CheckpointCreated, SessionDeleted
from tests.fixtures.commands import Milepost, wait_until
from tests.fixtures.publishing import produce_raw
from tests.producer.helpers import created


@pytest.fixture
def publisher(milepost: Milepost, kafka_servers: str, topic: str, tmp_path: Path) -> Iterator[CheckpointPublisher]:
    """A publisher, and a consumer that runs beside the test."""
    log = tmp_path / "consume.log"
    with (
        milepost.running("-v", "consume", log=log) as process,
        CheckpointPublisher(kafka_servers, topic=topic, kafka={"linger.ms": 0}) as publisher,
    ):
        wait_until(lambda: process.poll() is None and log.stat().st_size > 0, "the consumer")
        yield publisher


def test_what_was_published_can_be_read_at_once(publisher: CheckpointPublisher, database: str) -> None:
    with CheckpointStore(database) as store:
        for number in range(5):
            event = created(number)
            store.wait_for(publisher.publish(event).result(30), 30)
            found = store.get("t", "s", event.checkpoint_id)
            assert found is not None
            assert (found.state, found.seq) == (event.state, number + 1)


def test_the_same_with_asyncio(publisher: CheckpointPublisher, database: str) -> None:
    async def write_and_read() -> list[bytes]:
        async with AsyncCheckpointStore(database) as store:
            read = []
            for number in range(5):
                event = created(number)
                await store.wait_for(await publisher.publish(event), 30)
                found = await store.get("t", "s", event.checkpoint_id)
                assert found is not None
                read.append(found.state)
            return read

    assert asyncio.run(asyncio.wait_for(write_and_read(), 60)) == [created(number).state for number in range(5)]


def test_waiting_ends_for_what_is_not_applied_and_history_tells(publisher: CheckpointPublisher, database: str) -> None:
    event, late = created(1), created(2)
    repeated = CheckpointCreated(tenant_id="t", session_id="s", state=b"{}", checkpoint_id=event.checkpoint_id)
    deletion = SessionDeleted(tenant_id="t", session_id="s")
    with CheckpointStore(database) as store:
        for each in (event, event, repeated, deletion, late):
            store.wait_for(publisher.publish(each).result(30), 30)
        outcomes = {entry.seq: (entry.event_id, entry.outcome) for entry in store.history("t", "s")}
        assert outcomes == {
            1: (event.event_id, "applied"),
            2: (event.event_id, "duplicate"),
            3: (repeated.event_id, "conflict"),
            4: (deletion.event_id, "applied"),
            5: (late.event_id, "stale"),
        }
        assert store.get("t", "s", late.checkpoint_id) is None


def test_waiting_ends_behind_a_quarantined_record(
    publisher: CheckpointPublisher, database: str, kafka_servers: str, topic: str
) -> None:
    with CheckpointStore(database) as store:
        before = publisher.publish(created(0)).result(30)
        produce_raw(kafka_servers, topic, [(b"t/s", b"no event", [])])
        after = created(1)
        position = publisher.publish(after).result(30)
        assert (position.partition, position.offset) == (before.partition, before.offset + 2)
        store.wait_for(type(position)(topic, position.partition, position.offset - 1), 30)  # the quarantined one's
        store.wait_for(position, 30)
        assert store.get("t", "s", after.checkpoint_id) is not None
    with psycopg.connect(database) as connection:
        assert connection.execute('select partition, "offset" from milepost.quarantine').fetchall() == [
            (position.partition, position.offset - 1)
        ]
