"""Laws of the view: it equals the model, whatever the batches, the restarts and the number of consumers."""

from __future__ import annotations

import os
from datetime import timedelta
from itertools import pairwise

import psycopg
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from milepost.consumer.integrity import Keyring
from milepost.consumer.materializer import Materializer
from milepost.consumer.records import LogRecord
from milepost.consumer.replay.rebuild import Rebuilder
from milepost.consumer.replay.restore import missing, row_of
from milepost.consumer.replay.shelf import Shelf
from milepost.consumer.retention import Live, Policy, Window
from milepost.schemas import DEFAULT_TOPIC, CheckpointCreated, Event
from tests.fixtures.dump import Dump, dump, empty
from tests.fixtures.strategies import cuts, events
from tests.fixtures.view import PARTITIONS, TICK, FakeLog, bind_log
from tests.model import Expected, model

EXAMPLES = int(os.environ.get("MILEPOST_LAW_EXAMPLES", "60"))
law = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
logs = st.lists(events(), max_size=40)


def log_of(happened: list[Event]) -> FakeLog:
    log = FakeLog()
    for number, event in enumerate(happened):
        if number % 11 == 10:
            log.append_raw(b"acme/one", b"no event", [("x", None)])
        log.append(event)
    return log


def set_newest(database: str, newest: int, max_bytes: int | None = None, max_age: int | None = None) -> None:
    """The one policy; `max_age` in the log's ticks."""
    age = timedelta(microseconds=max_age * TICK) if max_age is not None else None
    with psycopg.connect(database) as connection:
        connection.execute(
            "update milepost.retention_policies set newest = %s, max_bytes = %s, max_age = %s", [newest, max_bytes, age]
        )


def fill(database: str, records: list[LogRecord], bounds: list[int], restarts: set[int], consumers: int = 1) -> Dump:
    """Build the view from nothing: in these batches, with a fresh consumer after these, each consumer with its partitions."""
    empty(database)
    bind_log(database)
    for consumer in range(consumers):
        ours = [partition for partition in range(PARTITIONS) if partition % consumers == consumer]
        materializer = Materializer(database, DEFAULT_TOPIC)
        materializer.take(ours)
        for number, (start, end) in enumerate(pairwise(bounds)):
            batch = [record for record in records[start:end] if record.partition in ours]
            if batch:
                materializer.apply(batch)
            if number in restarts:
                materializer.close()
                materializer = Materializer(database, DEFAULT_TOPIC)
                materializer.take(ours)
        materializer.close()
    return dump(database)


def assert_equals_model(database: str, expected: Expected, newest: int) -> None:
    with psycopg.connect(database) as connection:
        history = connection.execute(
            'select tenant_id, session_id, seq, outcome::text, partition, "offset" from milepost.history order by 1, 2, 3'
        ).fetchall()
        live = connection.execute(
            "select tenant_id, session_id, seq, checkpoint_id, state::text from milepost.checkpoints order by 1, 2, 3"
        ).fetchall()
        heads = connection.execute(
            "select tenant_id, session_id, last_seq, live_checkpoints, live_bytes, newest_seq from milepost.sessions "
            "order by 1, 2"
        ).fetchall()
        quarantine = connection.execute('select partition, "offset", reason from milepost.quarantine').fetchall()
    surviving = expected.live(lambda tenant_id, session_id: newest)
    assert history == [
        (*key, entry.seq, entry.outcome, entry.record.partition, entry.record.offset)
        for key, entries in sorted(expected.history.items())
        for entry in entries
    ]
    assert live == [
        (*key, entry.seq, entry.event.checkpoint_id, (entry.event.state or b"").decode())
        for key, entries in sorted(surviving.items())
        for entry in entries
    ]
    assert heads == [
        (
            *key,
            len(expected.history[key]),
            len(entries),
            sum(entry.event.size for entry in entries),
            max((entry.seq for entry in entries), default=None),
        )
        for key, entries in sorted(surviving.items())
    ]
    assert sorted(quarantine) == sorted(expected.quarantine)


@law
@given(happened=logs, newest=st.integers(1, 5), data=st.data())
def test_the_view_equals_the_model_whatever_the_batches(
    database: str, happened: list[Event], newest: int, data: st.DataObject
) -> None:
    set_newest(database, newest)
    records = log_of(happened).records
    bounds = data.draw(cuts(len(records)))
    restarts = data.draw(st.sets(st.integers(0, 6)))
    in_parts = fill(database, records, bounds, restarts, data.draw(st.sampled_from([1, 2, 4])))
    assert_equals_model(database, model(records), newest)
    assert fill(database, records, [0, len(records)], set()) == in_parts


def replayed(
    database: str,
    records: list[LogRecord],
    bounds: list[int],
    restarts: set[int],
    held: int,
    keys: Keyring | None = None,
) -> Dump:
    """Rebuild the view as a replay does: states held back, some forgotten, all forgotten at a restart, then restored."""
    empty(database)
    bind_log(database)

    def begin() -> Rebuilder:
        rebuilder = Rebuilder(database, DEFAULT_TOPIC, Shelf(held), keys)
        rebuilder.take(range(PARTITIONS))
        return rebuilder

    rebuilder = begin()
    for number, (start, end) in enumerate(pairwise(bounds)):
        rebuilder.apply(records[start:end])
        if number in restarts:
            rebuilder.close()
            rebuilder = begin()
    rebuilder.finish()
    by_place = {(record.partition, record.offset): record for record in records}
    for partition in range(PARTITIONS):
        rows = [row_of(by_place[partition, offset], seq) for offset, seq in missing(database, partition)]
        if rows:
            rebuilder.write_states(rows)
    rebuilder.close()
    return dump(database)


@law
@given(happened=logs, newest=st.integers(1, 5), held=st.sampled_from([0, 5_000, 10**9]), data=st.data())
def test_a_replay_equals_the_live_view_and_the_model_whatever_it_forgets(
    database: str, happened: list[Event], newest: int, held: int, data: st.DataObject
) -> None:
    max_bytes, max_age = data.draw(st.none() | st.integers(1, 80)), data.draw(st.none() | st.integers(1, 40))
    set_newest(database, newest, max_bytes, max_age)
    records = log_of(happened).records
    bounds = data.draw(cuts(len(records)))
    rebuilt = replayed(database, records, bounds, data.draw(st.sets(st.integers(0, 6))), held)
    if max_bytes is None and max_age is None:
        assert_equals_model(database, model(records), newest)
    assert fill(database, records, data.draw(cuts(len(records))), set()) == rebuilt


def test_a_replay_that_was_killed_knows_what_other_limits_than_the_number_removed(database: str) -> None:
    """Asked of history alone, the window would hold them again, and they would be counted off twice."""
    log = FakeLog()
    for number in range(1, 9):
        log.append(
            CheckpointCreated(tenant_id="acme", session_id="one", checkpoint_id=f"c{number}", state=b"[12345678]")
        )
    set_newest(database, 6, max_bytes=25)
    live = fill(database, log.records, [0, 8], set())
    assert replayed(database, log.records, [0, 5, 8], {0}, 10**9) == live


@law
@given(
    seqs=st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1, max_size=30),
    newest=st.integers(1, 6),
    max_bytes=st.none() | st.integers(1, 40),
    max_age=st.none() | st.integers(1, 12),
)
def test_retention_never_takes_the_newest_nor_a_pinned_one_and_keeps_its_limits(
    seqs: list[tuple[int, bool]], newest: int, max_bytes: int | None, max_age: int | None
) -> None:
    policy = Policy(newest, max_age, max_bytes)
    window = Window()
    removed: list[Live] = []
    everything = [Live(number, size, number * 3, pinned) for number, (size, pinned) in enumerate(seqs, 1)]
    for live in everything:
        window.append(live)
        removed += policy.prune(window)
        assert window.lives[-1] == live
        assert len(window) <= newest
        assert window.size == sum(kept.size for kept in window)
        assert max_bytes is None or len(window) == 1 or sum(kept.size for kept in window) <= max_bytes
        assert max_age is None or all(kept.log_time >= live.log_time - max_age for kept in window)
    assert not any(live.pinned for live in removed)
    kept = [live for live in everything if live not in removed]
    assert [live for live in kept if not live.pinned] == [live for live in window if not live.pinned]


@law
@given(happened=logs, before=st.integers(1, 5), after=st.integers(1, 5), data=st.data())
def test_a_lowered_policy_reaches_sessions_that_stand_still(
    database: str, happened: list[Event], before: int, after: int, data: st.DataObject
) -> None:
    set_newest(database, before)
    records = log_of(happened).records
    fill(database, records, data.draw(cuts(len(records))), set())
    set_newest(database, after)
    materializer = Materializer(database, DEFAULT_TOPIC)
    materializer.take(range(PARTITIONS))
    assert materializer.is_sweeping
    while materializer.is_sweeping:
        materializer.sweep()
    materializer.close()
    assert_equals_model(database, model(records), min(before, after))
