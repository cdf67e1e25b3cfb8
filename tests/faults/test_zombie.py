"""One writer: who has lost its partitions writes nothing, says so, and is a member again."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from milepost.consumer import reader
from milepost.consumer.database import connect, scalar
from milepost.consumer.materializer import become_writer
from milepost.schemas import Event
from tests.chaos.servers import Servers
from tests.chaos.world import World
from tests.chaos.zombie import one_round, watch
from tests.faults.contest import Contest
from tests.fixtures.strategies import events

ROUNDS = 3
"""`python -m tests.chaos zombie --rounds 100` has a hundred."""


@pytest.fixture
def world(servers: Servers, tmp_path: Path) -> Iterator[World]:
    with World(servers, tmp_path, [1, 1]) as made:
        watch(made)
        yield made


def test_a_consumer_that_was_stopped_while_another_took_over(world: World) -> None:
    chosen = random.Random(8)
    assert [found for _ in range(ROUNDS) for found in one_round(world, chosen)] == []
    assert world.differences() == []


def test_a_transaction_does_not_outlive_the_groups_patience(database: str) -> None:
    with closing(connect(database)) as connection:
        become_writer(connection)
        patience = scalar(
            connection, "select setting::int from pg_settings where name = 'idle_in_transaction_session_timeout'"
        )
    assert 0 < int(str(patience)) <= int(reader.SETTINGS["session.timeout.ms"])


def test_a_hundred_batches_that_were_planned_before_another_wrote(database: str) -> None:
    """Whatever part of the log the other has applied meanwhile: when it shares a partition, the late one changes nothing."""
    contest = Contest(database)

    @settings(max_examples=100)
    @given(happened=st.lists(events(), min_size=1, max_size=8), data=st.data())
    def law(happened: list[Event], data: st.DataObject) -> None:
        records = contest.append(happened)
        planned = records[: data.draw(st.integers(1, len(records)))]
        shared = [record for record in records if record.partition == planned[0].partition]
        lost, before, after = contest.lose(planned, shared[: data.draw(st.integers(1, len(shared)))])
        assert planned[0].partition in lost
        assert before == after
        contest.finish(records)

    try:
        law()
    finally:
        contest.close()
