"""A sweep removes much in many small transactions, and the view is right between any two of them."""

from __future__ import annotations

from contextlib import closing
from itertools import count, pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from milepost.consumer import sweep
from milepost.consumer.audit.verify import VerifyRequest, verify
from milepost.consumer.heads import HeadCache
from milepost.consumer.integrity.signer import Signer
from milepost.consumer.lookup import load_heads
from milepost.consumer.materializer import Materializer
from milepost.consumer.records import LogRecord
from milepost.consumer.retention import Live
from milepost.consumer.store import CheckpointStore
from milepost.schemas import CheckpointCreated, Event
from tests.fixtures.dump import Dump, dump, empty
from tests.fixtures.strategies import cuts, events
from tests.fixtures.view import FakeLog, bind_log
from tests.scale.ground import KEY, checkpoint, filled, heads, set_policy, taken

Limits = tuple[int, int | None, int | None]


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> int:
    """How many checkpoints a transaction may remove."""
    monkeypatch.setattr(sweep, "_ROWS", 100)
    return 100


def swept(consumer: Materializer) -> list[int]:
    """How many checkpoints each step removes."""
    steps = []
    while consumer.is_sweeping:
        steps.append(consumer.sweep())
    return steps


def test_what_sessions_hold_says_how_many_are_measured_together(database: str, rows: int) -> None:
    session = [f"s{number}" for number in range(6)]
    filled(database, *[checkpoint(number, each) for each in session for number in range(1, 41)])
    set_policy(database, 5)
    with closing(taken(database)) as consumer:
        assert swept(consumer) == [2 * 35, 2 * 35, 2 * 35, 0]
    assert 2 * 40 <= rows < 3 * 40
    assert heads(database) == [(each, 5, 5 * 8, 35) for each in session]


def test_states_count_by_their_size(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "_ROWS", 6)
    big = [checkpoint(number, "big", size=2 * 8_192) for number in range(1, 7)]
    small = [checkpoint(number, each) for each in ("small", "tiny") for number in range(1, 4)]
    filled(database, *big, *small)
    set_policy(database, 1)
    with closing(taken(database)) as consumer:
        assert swept(consumer) == [2, 2, 1, 4, 0]
    assert heads(database) == [("big", 1, 2 * 8_192, 5), ("small", 1, 8, 2), ("tiny", 1, 8, 2)]


def long_session() -> list[CheckpointCreated]:
    """260 checkpoints, two of them pinned."""
    return [checkpoint(number, pinned=number in (50, 150)) for number in range(1, 261)]


@pytest.mark.usefixtures("rows")
def test_a_long_session_is_removed_in_parts_and_read_once(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(database, *long_session(), checkpoint(1, "last"), checkpoint(2, "last"), signed=True)
    read: list[int] = []
    check_window = Signer.check_window

    def counted(signer: Signer, head: object, rows: list[object]) -> list[Live]:
        read.append(len(rows))
        return check_window(signer, head, rows)  # type: ignore[arg-type]

    monkeypatch.setattr(Signer, "check_window", counted)
    set_policy(database, 1)
    seen = []
    with closing(taken(database, signed=True)) as consumer:
        while consumer.is_sweeping:
            seen.append((consumer.sweep(), heads(database)[0]))
            # what a reader with the key checks: the head, and that all its rows are there
            with CheckpointStore(database, integrity_keys=[KEY]) as store:
                assert len(store.list("acme", "big")) == seen[-1][1][1]
    assert [(step, live, pruned_seq) for step, (_, live, _, pruned_seq) in seen] == [
        (100, 160, 101),
        (100, 60, 202),
        (57 + 1, 3, 259),
        (0, 3, 259),
    ]
    assert read == [260, 2]


@pytest.mark.usefixtures("rows")
def test_who_was_killed_between_two_steps_is_followed_by_one_who_goes_on(database: str) -> None:
    log = filled(database, *long_session())
    set_policy(database, 1)
    with closing(taken(database)) as killed:
        assert killed.sweep() == 100
    assert verify(VerifyRequest(database=database)).first == []
    with closing(taken(database)) as consumer:
        assert consumer.sweep() == 100
        # an event measures its session, so that nothing is left of it
        assert consumer.apply([log.append(checkpoint(261))]).pruned == 58
        assert swept(consumer) == [0, 0]
    assert heads(database) == [("big", 3, 3 * 8, 260)]
    assert verify(VerifyRequest(database=database)).verified


def test_a_window_begins_behind_what_was_removed(database: str) -> None:
    """However many are pinned, an event's session is read no further."""
    filled(database, *[checkpoint(number, pinned=number <= 30) for number in range(1, 41)])
    set_policy(database, 3)
    with closing(taken(database)) as consumer:
        swept(consumer)
        (head,) = load_heads(consumer.connection(), HeadCache(), {("acme", "big")}, ()).values()
    assert [live.seq for live in head.window] == [38, 39, 40]
    assert (head.live_checkpoints, head.window.size) == (33, 3 * 8)


def fill(database: str, limits: Limits, records: list[LogRecord], bounds: list[int]) -> None:
    """The signed view of these records under a policy, in these batches."""
    empty(database)
    bind_log(database)
    set_policy(database, *limits)
    with closing(taken(database, signed=True)) as consumer:
        for start, end in pairwise(bounds):
            consumer.apply(records[start:end])


def interrupted(database: str, records: list[LogRecord], data: st.DataObject) -> Dump:
    """The view once a sweep is through that events come between, and consumers that take over from one another."""
    bounds = data.draw(cuts(len(records)))
    pauses, kills = data.draw(st.sets(st.integers(0, 9))), data.draw(st.sets(st.integers(0, 9), max_size=3))
    arriving = list(pairwise(bounds))
    consumer = taken(database, signed=True)
    for step in count():
        consumer.sweep()
        heads(database)
        if arriving and step not in pauses:
            start, end = arriving.pop(0)
            consumer.apply(records[start:end])
        if step in kills:
            consumer.close()
            consumer = taken(database, signed=True)
        elif not (arriving or consumer.is_sweeping):
            break
    consumer.close()
    return dump(database)


@settings(
    max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None
)
@given(
    happened=st.lists(events(), min_size=6, max_size=40),
    newest=st.integers(1, 5),
    rows=st.integers(1, 4),
    data=st.data(),
)
def test_the_steps_of_a_sweep_do_not_show(
    database: str, happened: list[Event], newest: int, rows: int, data: st.DataObject
) -> None:
    """A view that was swept is the one that had the policy from the beginning."""
    after = (newest, data.draw(st.none() | st.integers(1, 80)), data.draw(st.none() | st.integers(1, 40)))
    log = FakeLog()
    records = [log.append(event) for event in happened]
    middle = data.draw(st.integers(0, len(records)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweep, "_ROWS", rows)
        fill(database, (newest + 20, None, None), records[:middle], data.draw(cuts(middle)))
        set_policy(database, *after)
        found = interrupted(database, records[middle:], data)
    fill(database, after, records, [0, len(records)])
    assert dump(database) == found
