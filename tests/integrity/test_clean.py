"""No false alarm: whatever the log holds, reads with a key find what reads without it find."""

from __future__ import annotations

import os
from itertools import pairwise
from uuid import UUID

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from milepost.consumer.integrity import Keyring
from milepost.consumer.materializer import Materializer
from milepost.consumer.store import CheckpointStore
from milepost.schemas import DEFAULT_TOPIC, CheckpointCreated, Event
from tests.fixtures.dump import empty
from tests.fixtures.strategies import cuts, events
from tests.fixtures.view import PARTITIONS, bind_log
from tests.integrity.ground import KEY, OTHER_KEY
from tests.properties.test_view_laws import log_of, replayed, set_newest

EXAMPLES = int(os.environ.get("MILEPOST_LAW_EXAMPLES", "8"))
law = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def read_all(store: CheckpointStore, happened: list[Event]) -> list[object]:
    """All that can be read of the sessions of these events."""
    found: list[object] = []
    for tenant_id, session_id in sorted({(event.tenant_id, event.session_id) for event in happened}):
        ids = {
            event.checkpoint_id
            for event in happened
            if isinstance(event, CheckpointCreated) and (event.tenant_id, event.session_id) == (tenant_id, session_id)
        }
        found += [store.get(tenant_id, session_id, checkpoint_id) for checkpoint_id in sorted(ids)]
        found += [store.latest(tenant_id, session_id), store.session(tenant_id, session_id), store.sessions(tenant_id)]
        found += [
            store.list(tenant_id, session_id),
            store.list(tenant_id, session_id, limit=2, newest_first=True),
            store.list(tenant_id, session_id, run_id=UUID(int=1), after_seq=3),
            store.list_by_run(tenant_id, UUID(int=1), limit=3),
        ]
    return found


@law
@given(
    happened=st.lists(events(), max_size=40),
    policies=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    data=st.data(),
)
def test_reads_with_a_key_find_what_reads_without_it_find(
    database: str, happened: list[Event], policies: list[int], data: st.DataObject
) -> None:
    """Any batches and restarts, keys that change, policies that change on the way, sessions that stand still measured anew."""
    empty(database)
    bind_log(database)
    records = log_of(happened).records
    for number, (start, end) in enumerate(pairwise(data.draw(cuts(len(records))))):
        set_newest(database, policies[number % len(policies)], data.draw(st.none() | st.integers(20, 80)))
        keys = data.draw(st.sampled_from([[KEY], [KEY, OTHER_KEY], [OTHER_KEY, KEY]]))
        consumer = Materializer(database, DEFAULT_TOPIC, Keyring([*keys, *{KEY, OTHER_KEY}.difference(keys)]))
        consumer.take(range(PARTITIONS))
        consumer.apply(records[start:end])
        while consumer.is_sweeping:
            consumer.sweep()
        consumer.close()
    with CheckpointStore(database) as plain, CheckpointStore(database, integrity_keys=[KEY, OTHER_KEY]) as keyed:
        assert read_all(keyed, happened) == read_all(plain, happened)


@law
@given(happened=st.lists(events(), max_size=40), newest=st.integers(1, 5), data=st.data())
def test_a_replay_s_view_is_clean_however_often_it_was_killed(
    database: str, happened: list[Event], newest: int, data: st.DataObject
) -> None:
    set_newest(database, newest, data.draw(st.none() | st.integers(1, 80)), data.draw(st.none() | st.integers(1, 40)))
    records = log_of(happened).records
    bounds, restarts = data.draw(cuts(len(records))), data.draw(st.sets(st.integers(0, 6)))
    replayed(database, records, bounds, restarts, data.draw(st.sampled_from([0, 10**9])), Keyring([KEY]))
    with CheckpointStore(database) as plain, CheckpointStore(database, integrity_keys=[KEY]) as keyed:
        assert read_all(keyed, happened) == read_all(plain, happened)
