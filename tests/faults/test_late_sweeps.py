"""A sweep changes sessions and moves no position; who remembers them, or is just reading them, is fenced off all the same.

Found by a round of chaos: three consumers, stopped and woken, after a change of policy. One read a session's head; another, late,
swept the session; the first read the window, and counted a checkpoint that was gone.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from milepost.consumer import queries
from milepost.consumer.materializer import Materializer
from milepost.schemas import CheckpointCreated, Fenced
from tests.fixtures.dump import dump
from tests.scale.ground import filled, heads, set_policy, taken


def event(session: str = "s") -> CheckpointCreated:
    return CheckpointCreated(tenant_id="acme", session_id=session, state=b"{}")


def swept(consumer: Materializer) -> None:
    consumer.look_at_policies()
    while consumer.is_sweeping:
        consumer.sweep()


def test_who_remembers_a_session_that_another_swept_is_fenced(database: str) -> None:
    log = filled(database, *[event() for _ in range(20)])
    with closing(taken(database)) as late, closing(taken(database)) as other:
        late.apply([log.append(event())])
        other.take(other.positions)
        # the position stays, so that it alone would let the late one pass
        set_policy(database, 5)
        swept(other)
        before = dump(database)
        with pytest.raises(Fenced):
            late.apply([log.append(event())])
        assert dump(database) == before
        # who swept is not
        other.apply([log.append(event())])
    assert [row[:2] for row in heads(database)] == [("s", 5)]


def test_a_sweep_between_reading_a_head_and_its_window(database: str) -> None:
    log = filled(database, *[event() for _ in range(20)])
    with closing(taken(database)) as reading, closing(taken(database)) as late:
        set_policy(database, 19)
        connection: Any = reading.connection()
        execute = connection.execute

        def interrupted(query: Any, *arguments: Any, **options: Any) -> Any:
            if query == queries.load("materialize")["windows"]:
                swept(late)
            return execute(query, *arguments, **options)

        connection.execute = interrupted
        arrived = log.append(event())
        with pytest.raises(Fenced):
            reading.apply([arrived])
        reading.take(reading.positions)
        reading.apply([arrived])
    assert [row[:2] for row in heads(database)] == [("s", 19)]


def test_of_two_that_sweep_the_second_finds_nothing_left(database: str) -> None:
    filled(database, *[event() for _ in range(20)])
    with closing(taken(database)) as one, closing(taken(database)) as other:
        set_policy(database, 5)
        one.look_at_policies()
        other.look_at_policies()
        assert (one.sweep(), other.sweep()) == (15, 0)
    assert [row[:2] for row in heads(database)] == [("s", 5)]
