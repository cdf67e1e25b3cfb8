"""A deletion walks over what is live, not over what was removed before and still lies in the table, dead."""

from __future__ import annotations

from contextlib import closing
from itertools import pairwise

import pytest

from milepost.consumer.chain import START
from milepost.consumer.heads import Head
from milepost.consumer.plan import Known, Plan, Stand, moves_of
from milepost.consumer.retention import Policies, Policy
from milepost.schemas import Event, SessionDeleted
from tests.fixtures.dump import dump, empty
from tests.fixtures.view import FakeLog, bind_log
from tests.scale.ground import Counted, checkpoint, filled, heads, set_policy, taken

MANY = 1_000


def deletion() -> SessionDeleted:
    """One made now."""
    return SessionDeleted(tenant_id="acme", session_id="big")


@pytest.mark.parametrize("restarts", [False, True])
def test_a_second_deletion_costs_what_came_since_the_first(database: str, restarts: bool) -> None:
    log = filled(database, *[checkpoint(number) for number in range(1, MANY + 1)])
    with closing(Counted(database)) as view:
        before = view.walked()
        view.consumer.apply([log.append(deletion())])
        # once for the window, once for the rows
        assert view.walked() - before == 2 * MANY
        for number in range(2):
            before = view.walked()
            view.consumer.apply([log.append(checkpoint(number, pinned=True))])
            if restarts:
                view.restart()
            view.consumer.apply([log.append(deletion())])
            assert view.walked() - before < 10
    assert heads(database) == [("big", 0, 0, 0)]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_deletion_after_many_were_pruned(database: str, restarts: bool) -> None:
    log = filled(database, *[checkpoint(number) for number in range(1, MANY + 1)])
    set_policy(database, 3)
    with closing(Counted(database)) as view:
        while view.consumer.is_sweeping:
            view.consumer.sweep()
        assert heads(database) == [("big", 3, 3 * 8, MANY - 3)]
        if restarts:
            view.restart()
        before = view.walked()
        view.consumer.apply([log.append(deletion())])
        assert view.walked() - before < 10
    assert heads(database) == [("big", 0, 0, 0)]


def life() -> list[Event]:
    """Checkpoints between deletions; some before the first and the third are pinned and long out of the window by then."""
    happened: list[Event] = []
    for first in (1, 9, 17):
        happened += [checkpoint(number, pinned=first != 9 and number % 3 == 1) for number in range(first, first + 8)]
        happened.append(deletion())
    return [*happened, checkpoint(25, pinned=True)]


@pytest.mark.parametrize("restarts", [False, True])
def test_pinned_ones_below_the_window_are_deleted_too(database: str, restarts: bool) -> None:
    log = FakeLog()
    records = [log.append(event) for event in life()]
    views = []
    for inner in (range(1, 28), range(2, 28, 2), [4, 20], []):
        empty(database)
        bind_log(database)
        set_policy(database, 2)
        consumer = taken(database)
        for start, end in pairwise([0, *inner, len(records)]):
            consumer.apply(records[start:end])
            heads(database)
            if restarts:
                consumer.close()
                consumer = taken(database)
        consumer.close()
        assert heads(database) == [("big", 1, 8, 0)]
        views.append(dump(database))
    assert all(view == views[0] for view in views)


class CountedRows(dict[object, object]):
    """Rows that know how often one was taken out."""

    pops = 0

    def pop(self, *arguments: object) -> object:
        self.pops += 1
        return super().pop(*arguments)


def test_many_deletions_in_one_batch_cost_what_each_takes_away() -> None:
    log = FakeLog(partitions=1)
    records = []
    for number in range(300):
        records += [log.append(checkpoint(number)), log.append(deletion())]
    moves = moves_of(records, {0: Stand(0, START)})
    plan = Plan({("acme", "big"): Head("acme", "big", 0)}, Known({}, {}), Policies(1, {(None, None): Policy()}), moves)
    rows = CountedRows()
    plan.inserts = rows  # type: ignore[assignment]
    for record in records:
        plan.add(record)
    assert not rows
    assert rows.pops == 300
