"""The twin in memory says what Postgres says, whatever the log holds and however it is cut into batches."""

from __future__ import annotations

import random
from contextlib import closing
from datetime import UTC, datetime, timedelta
from uuid import UUID

import psycopg
import pytest

from milepost.consumer.retention import Policies, Policy
from milepost.consumer.store import CheckpointStore
from milepost.consumer.testing import MemoryStore, MemoryView
from milepost.producer.testing import MemoryPublisher
from milepost.schemas import CheckpointCreated, Event, SessionDeleted
from tests.fixtures.view import PARTITIONS, FakeLog, PostgresView

TENANTS, SESSIONS = ("acme", "other"), ("a", "b", "é/ß")
START = datetime(2026, 3, 29, tzinfo=UTC)
RUNS = (None, UUID(int=1), UUID(int=2))
POLICIES = {
    (None, None): Policy(4),
    ("acme", None): Policy(10, max_age=40_000),
    ("acme", "b"): Policy(6, max_bytes=12),
}


def any_event(choose: random.Random, earlier: list[Event]) -> Event:
    """Mostly checkpoints with ids that repeat, some of them late; now and then a deletion, or an earlier event again."""
    kind = choose.random()
    if earlier and kind < 0.1:
        return choose.choice(earlier)
    tenant_id, session_id = choose.choice(TENANTS), choose.choice(SESSIONS)
    event_id, at = UUID(int=choose.getrandbits(128)), START + timedelta(seconds=choose.randrange(30))
    if kind < 0.2:
        return SessionDeleted(tenant_id=tenant_id, session_id=session_id, deleted_at=at, event_id=event_id)
    return CheckpointCreated(
        tenant_id=tenant_id,
        session_id=session_id,
        state=b"%d" % choose.choice((1, 22, 333, 4444)),
        checkpoint_id=f"{choose.randrange(40):x}",
        run_id=choose.choice(RUNS),
        pinned=choose.random() < 0.1,
        created_at=at,
        event_id=event_id,
    )


def any_log(choose: random.Random, length: int) -> FakeLog:
    log = FakeLog()
    earlier: list[Event] = []
    for _ in range(length):
        if choose.random() < 0.05:
            log.append_raw(choose.choice((None, b"acme/a", b"\xff")), b"?", [])
        else:
            earlier.append(any_event(choose, earlier))
            log.append(earlier[-1])
    return log


def set_policies(database: str) -> None:
    rows = [
        (tenant, session, policy.newest, policy.max_age, policy.max_bytes)
        for (tenant, session), policy in POLICIES.items()
    ]
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("delete from milepost.retention_policies")
        connection.cursor().executemany(
            "insert into milepost.retention_policies (tenant_id, session_id, newest, max_age, max_bytes) "
            "values (%s, %s, %s, %s * interval '1 microsecond', %s)",
            rows,
        )


def fill(choose: random.Random, database: str, log: FakeLog) -> None:
    """Take the log in, in batches of any size, by consumers that follow one another."""
    left = list(log.records)
    while left:
        with closing(PostgresView(database)) as view:
            for _ in range(choose.randint(1, 5)):
                size = choose.randint(1, 40)
                if batch := left[:size]:
                    view.apply(batch)
                del left[:size]


@pytest.mark.parametrize("seed", range(6))
def test_every_read_agrees(seed: int, database: str) -> None:
    choose = random.Random(seed)
    log = any_log(choose, 400)
    set_policies(database)
    fill(choose, database, log)
    view = MemoryView(partitions=PARTITIONS, policies=Policies(0, POLICIES))
    view.apply(log.records)
    with CheckpointStore(database) as real, MemoryStore(view) as twin:
        for tenant_id in TENANTS:
            assert real.sessions(tenant_id) == twin.sessions(tenant_id) != []
            for run_id in filter(None, RUNS):
                assert real.list_by_run(tenant_id, run_id) == twin.list_by_run(tenant_id, run_id)
            for session_id in SESSIONS:
                assert real.list(tenant_id, session_id) == twin.list(tenant_id, session_id)
                assert real.history(tenant_id, session_id) == twin.history(tenant_id, session_id) != []
                assert real.latest(tenant_id, session_id) == twin.latest(tenant_id, session_id)
                for checkpoint_id in (f"{number:x}" for number in range(40)):
                    names = (tenant_id, session_id, checkpoint_id)
                    assert real.get(*names) == twin.get(*names)
    with psycopg.connect(database) as connection:
        kept = connection.execute(
            'select partition, "offset", reason from milepost.quarantine order by 1, 2'
        ).fetchall()
        reached = connection.execute("select partition, next_offset from milepost.partitions").fetchall()
    assert kept == sorted((r.partition, r.offset, r.fault.reason.value) for r in view.quarantine if r.fault) != []
    assert dict(reached) == view.positions


def test_what_a_memory_publisher_holds_is_a_log() -> None:
    with MemoryPublisher() as publisher:
        receipt = publisher.publish(CheckpointCreated(tenant_id="acme", session_id="s", state=b'{"a": 1}'))
        view = MemoryView()
        view.apply(publisher.records)
        publisher.publish(SessionDeleted(tenant_id="acme", session_id="t"))
        view.apply(publisher.records)
    store = MemoryStore(view)
    position = receipt.result()
    store.wait_for(position, 0)
    found = store.latest("acme", "s")
    assert found is not None
    assert (found.state, found.position, found.seq) == (b'{"a": 1}', position, 1)
    assert [info.session_id for info in store.sessions("acme")] == ["s", "t"]


def test_records_of_another_log_are_refused() -> None:
    with MemoryPublisher(topic="other.events", partitions=40) as publisher:
        publisher.publish(CheckpointCreated(tenant_id="acme", session_id="s", state=b"1"))
        record = publisher.records[0]
    with pytest.raises(ValueError, match=f"expected a record of the topic milepost.events, found {record.position}"):
        MemoryView().apply([record])
    with pytest.raises(ValueError, match="expected a partition below 1, found"):
        MemoryView("other.events", partitions=1).apply([record])
