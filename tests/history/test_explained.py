"""What became of each event and why, by every kind of store; the twin's answers and those of Postgres are one."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from milepost.consumer import AsyncCheckpointStore, Became, CheckpointStore, ExplainedEntry, Outcome
from milepost.consumer.retention import Policies, Policy
from milepost.consumer.testing import MemoryStore, MemoryView
from milepost.schemas import CheckpointCreated, Event, Kind, SessionDeleted
from tests.fixtures.strategies import events
from tests.fixtures.view import FIRST_LOG_TIME, PARTITIONS, TICK, FakeLog, PostgresView
from tests.store.conftest import Served
from tests.store.stores import Awaited, View

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
RUN = UUID(int=7)


def created(checkpoint_id: str, seconds: int, number: int, state: bytes = b"1", *, pinned: bool = False) -> Event:
    return CheckpointCreated(
        tenant_id="acme",
        session_id="s",
        checkpoint_id=checkpoint_id,
        state=state,
        created_at=NOON + timedelta(seconds=seconds),
        event_id=UUID(int=number),
        pinned=pinned,
        run_id=RUN if number % 2 else None,
    )


STORY: list[Event] = [
    created("a", 0, 1),
    created("a", 0, 1),
    created("a", 0, 1, b"2"),
    created("a", 1, 2),
    created("a", 1, 3, b"2"),
    SessionDeleted(tenant_id="acme", session_id="s", deleted_at=NOON + timedelta(seconds=5), event_id=UUID(int=4)),
    created("b", 4, 5),
    created("b", 6, 6, pinned=True),
    created("c", 6, 7),
    created("d", 6, 8),
    created("e", 6, 9),
]
DELETION = "event 00000000-0000-0000-0000-000000000004 at 2026-11-30 12:00:05.000000Z"
EXPLAINED = [
    ("deleted", f"deleted by seq 6, {DELETION}"),
    ("duplicate", "duplicate of seq 1: the same event"),
    ("conflict", "conflict with seq 1: the same event id, other content"),
    ("duplicate", "duplicate of seq 1: the same checkpoint and bytes"),
    ("conflict", "conflict with seq 1: the same checkpoint id, other bytes"),
    ("applied", None),
    ("stale", f"older than the deletion of seq 6, {DELETION}"),
    ("live", "pinned"),
    ("pruned", "pruned: newest 2, at most 3600 s before the newest, at most 1000 bytes (policy of the tenant)"),
    ("live", None),
    ("live", None),
]


def told(store: CheckpointStore, **filters: object) -> list[ExplainedEntry]:
    """The history of the story's session, by whichever store."""
    found = store.iter_history("acme", "s", **filters)  # type: ignore[arg-type]
    if isinstance(store, Awaited):

        async def gathered() -> list[ExplainedEntry]:
            return [entry async for entry in found]

        return list(store.run(gathered()))
    return list(found)


def with_policy(view: View, database: str | None, newest: int) -> None:
    hour = 3_600_000_000
    if isinstance(view, MemoryView):
        view.policies = Policies(1, {(None, None): Policy(), ("acme", None): Policy(newest, hour, 1000)})
        return
    assert isinstance(view, PostgresView)
    connection = view._materializer.connection()
    connection.execute("reset role")
    connection.execute(
        "insert into milepost.retention_policies (tenant_id, newest, max_age, max_bytes) values ('acme', %s, '1 hour', 1000)",
        [newest],
    )
    connection.execute("set role milepost_writer")
    view._materializer.take(range(PARTITIONS))


@pytest.fixture
def story(served: Served) -> CheckpointStore:
    """A session in which everything happened."""
    with_policy(served.view, None, 2)
    for event in STORY:
        served.publish(event)
    served.publish(CheckpointCreated(tenant_id="other", session_id="s", state=b"1"))
    return served.store


def test_what_became_of_each_and_why(story: CheckpointStore) -> None:
    found = told(story)
    assert [(entry.became.value, entry.why) for entry in found] == EXPLAINED
    plain = story.history("acme", "s")
    assert [tuple(getattr(entry, name) for name in entry.__struct_fields__) for entry in plain] == [
        tuple(getattr(entry, name) for name in plain[0].__struct_fields__) for entry in found
    ]


def test_filters(story: CheckpointStore) -> None:
    def seqs(**filters: object) -> list[int]:
        return [entry.seq for entry in told(story, **filters)]

    assert seqs(became=Became.LIVE) == [8, 10, 11]
    assert seqs(outcome=Outcome.APPLIED) == [1, 6, 8, 9, 10, 11]
    assert seqs(kind=Kind.SESSION_DELETED) == [6]
    assert seqs(run_id=RUN) == [1, 2, 3, 5, 7, 9, 11]
    assert seqs(run_id=RUN, became=Became.PRUNED) == [9]
    assert seqs(after_seq=8) == [9, 10, 11]
    assert seqs(became=Became.LIVE, limit=2) == [8, 10]
    assert seqs(event_since=NOON + timedelta(seconds=1), event_until=NOON + timedelta(seconds=6)) == [4, 5, 6, 7]
    third = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=FIRST_LOG_TIME + 3 * TICK)
    assert seqs(since=third) == [3, 4, 5, 6, 7, 8, 9, 10, 11]
    assert seqs(until=third) == [1, 2]
    assert seqs(since=third, until=third) == []


def test_pages_are_one_history(story: CheckpointStore, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = told(story)
    monkeypatch.setattr("milepost.consumer.explaining.PAGE", 2)
    assert told(story) == whole
    assert told(story, limit=5) == whole[:5]
    assert [entry.seq for entry in told(story, became=Became.LIVE)] == [8, 10, 11]


def test_wrong_filters(story: CheckpointStore) -> None:
    with pytest.raises(ValueError, match="with a time zone"):
        told(story, since=datetime(2026, 11, 30))  # noqa: DTZ001 - that is what is refused
    with pytest.raises(TypeError, match="run_id"):
        told(story, run_id="7")
    with pytest.raises(TypeError, match="nonsense"):
        told(story, nonsense=1)
    with pytest.raises(ValueError, match="limit"):
        told(story, limit=0)


def test_the_state_of_each_from_the_twin() -> None:
    log, view = FakeLog(), MemoryView(partitions=PARTITIONS)
    view.apply([log.append(event) for event in STORY])
    store = MemoryStore(view)
    pruned = store.state_from_log("acme", "s", "a", kafka="none")
    assert pruned is not None
    assert (pruned.entry.seq, pruned.state) == (1, b"1")
    conflict = store.state_from_log("acme", "s", "a", kafka="none", seq=5)
    assert conflict is not None
    assert conflict.state == b"2"
    assert store.state_from_log("acme", "s", "nobody", kafka="none") is None
    assert store.state_from_log("other", "s", "a", kafka="none") is None


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(happened=st.lists(events(), min_size=1, max_size=25), newest=st.integers(1, 3))
def test_twin_and_postgres_tell_the_same(database: str, happened: list[Event], newest: int) -> None:
    log = FakeLog()
    records = [log.append(event) for event in happened]
    view = MemoryView(partitions=PARTITIONS, policies=Policies(1, {(None, None): Policy(newest)}))
    view.apply(records)
    from tests.fixtures.dump import empty

    empty(database)
    postgres = PostgresView(database)
    connection = postgres._materializer.connection()
    connection.execute("reset role")
    connection.execute("update milepost.retention_policies set newest = %s", [newest])
    connection.execute("set role milepost_writer")
    postgres._materializer.take(range(PARTITIONS))
    postgres.apply(records)
    postgres.close()
    keys = {(event.tenant_id, event.session_id) for event in happened}
    with CheckpointStore(database) as store:
        for key in keys:
            assert list(store.iter_history(*key)) == list(MemoryStore(view).iter_history(*key))


def test_a_long_history_is_streamed_by_the_asynchronous_store(database: str) -> None:
    log, view = FakeLog(), PostgresView(database)
    view.apply([log.append(CheckpointCreated(tenant_id="t", session_id="s", state=b"%d" % n)) for n in range(2_500)])
    view.close()

    async def count() -> tuple[int, int]:
        async with AsyncCheckpointStore(database) as store:
            entries = [entry async for entry in store.iter_history("t", "s")]
        return len(entries), sum(entry.became is Became.LIVE for entry in entries)

    assert asyncio.run(count()) == (2_500, 50)
