"""docs/moving.md, command by command, while readers go on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from milepost.consumer import CheckpointStore
from milepost.producer import CheckpointPublisher
from tests.fixtures.commands import Milepost, stop, wait_until
from tests.moving.page import blocks, commands
from tests.moving.traffic import Reader, publishing, repeated, steps

DATABASE = "Move to a new database without stopping"
TOPIC = "Move to a wider topic"


@pytest.fixture
def publisher(kafka_servers: str, topic: str) -> Iterator[CheckpointPublisher]:
    """A publisher of the old topic."""
    with CheckpointPublisher(kafka_servers, topic=topic, source="/runtimes/test") as publisher:
        yield publisher


def rounds_more(reader: Reader, number: int) -> None:
    """Wait until the reader has gone on for a while."""
    wanted = reader.rounds + number
    wait_until(lambda: reader.rounds >= wanted, f"{number} rounds of reading")


def lag(command: Milepost, arguments: list[str]) -> int:
    return int(json.loads(command.run(*arguments, "--json"))["lag"])


def is_caught_up(command: Milepost, arguments: list[str]) -> bool:
    """As step 2 says: few enough to be those that are always under way."""
    return lag(command, arguments) < 20


def test_to_a_new_database_while_everything_goes_on(
    milepost: Milepost, publisher: CheckpointPublisher, database: str, empty_database: str, tmp_path: Path
) -> None:
    follow, status, consume = commands(DATABASE, OLD=database, NEW=empty_database)
    numbers, log = steps(), tmp_path / "log"
    milepost.run("retention", "set", "--newest", "7")
    with ExitStack() as stack:
        old_consumer = stack.enter_context(milepost.running("consume", log=log))
        stack.enter_context(repeated(publishing(publisher, numbers)))
        old, new = (stack.enter_context(CheckpointStore(view)) for view in (database, empty_database))
        wait_until(lambda: is_caught_up(milepost, ["status"]) and next(numbers) > 200, "the old view")
        reader = Reader(old)
        stack.enter_context(repeated(reader.round))

        replay = stack.enter_context(milepost.running(*follow, log=log))
        wait_until(
            lambda: replay.poll() is not None or b'"events"' in milepost.result(*status, "--json").stdout, "a view"
        )
        wait_until(lambda: is_caught_up(milepost, status), "the new view")
        new_consumer = stack.enter_context(milepost.running(*consume, log=log))
        assert stop(replay) == 0
        reader.switch(new, waits=True)
        wait_until(lambda: reader.has_switched, "the switch")
        rounds_more(reader, 20)
        assert stop(old_consumer) == 0
        rounds_more(reader, 20)
        assert reader.stale == []
        assert stop(new_consumer) == 0
    for view in (database, empty_database):
        milepost.run("consume", "--until-caught-up", "--database", view)
    milepost.run("compare", database, empty_database)


def test_the_wait_of_a_reader_as_the_page_has_it(
    milepost: Milepost, publisher: CheckpointPublisher, database: str, empty_database: str
) -> None:
    publish, (block,) = publishing(publisher, steps()), blocks(DATABASE, "python")
    publish()
    milepost.run("consume", "--until-caught-up")
    milepost.run("replay", "--into", empty_database)
    names: dict[str, CheckpointStore] = {}
    exec(block, {"OLD": database, "NEW": empty_database}, names)
    with names["old"], names["new"] as new:
        found = new.latest("acme", "trip-42")
    assert found is not None
    assert found.state == b'{"$type":0,"step":0}'


def test_to_a_wider_topic_while_readers_go_on(
    milepost: Milepost, kafka_servers: str, topic: str, database: str, empty_database: str, tmp_path: Path
) -> None:
    wide, numbers, log = f"{topic}.wide", steps(), tmp_path / "log"
    *prepare, consume = commands(TOPIC, OLD=database, NEW=empty_database, WIDE=wide)
    milepost.run("retention", "set", "--newest", "7")
    with ExitStack() as stack:
        old_consumer = stack.enter_context(milepost.running("consume", log=log))
        old, new = (stack.enter_context(CheckpointStore(view)) for view in (database, empty_database))
        with (
            CheckpointPublisher(kafka_servers, topic=topic, source="/runtimes/test") as publisher,
            repeated(publishing(publisher, numbers)),
        ):
            wait_until(lambda: is_caught_up(milepost, ["status"]) and next(numbers) > 200, "the old view")
        reader = Reader(old)
        stack.enter_context(repeated(reader.round))
        for arguments in prepare:
            milepost.run(*arguments)
        new_consumer = stack.enter_context(milepost.running(*consume, log=log))
        publisher = stack.enter_context(CheckpointPublisher(kafka_servers, topic=wide, source="/runtimes/test"))
        stack.enter_context(repeated(publishing(publisher, numbers)))
        reader.switch(new, waits=False)
        wait_until(lambda: reader.has_switched, "the switch")
        rounds_more(reader, 20)
        assert stop(old_consumer) == 0
        last = next(numbers)
        wait_until(lambda: any(reader_step(new, session) > last for session in ("trip-42", "trip-43")), "what is new")
        assert reader.stale == []
        assert stop(new_consumer) == 0


def reader_step(store: CheckpointStore, session_id: str) -> int:
    """The step that a view has of a session."""
    found = store.latest("acme", session_id)
    return int(json.loads(found.state)["step"]) if found is not None else -1
