"""The log, and each kind of store over a view of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from milepost.consumer.records import LogRecord
from milepost.consumer.store import CheckpointStore
from milepost.schemas import Event, Position
from tests.fixtures.view import FakeLog, PostgresView
from tests.store.stores import OPENERS, View, memory_pair, postgres_pair


class Served:
    """A log, a view of it, and a store over the view."""

    def __init__(self, log: FakeLog, view: View, store: CheckpointStore) -> None:
        self.log = log
        self.view = view
        self.store = store

    def publish(self, *events: Event) -> list[Position]:
        """Append events to the log and take them into the view, in one batch."""
        return self.take(*[self.log.append(event) for event in events])

    def take(self, *records: LogRecord) -> list[Position]:
        """Take records of the log into the view."""
        self.view.apply(records)
        return [self.log.position(record) for record in records]


@pytest.fixture
def log() -> FakeLog:
    """A log without records."""
    return FakeLog()


@pytest.fixture(params=["twin", "async twin", *OPENERS])
def served(request: pytest.FixtureRequest, log: FakeLog) -> Iterator[Served]:
    """Each kind of store, over an empty view."""
    if request.param not in OPENERS:
        twin, store = memory_pair(request.param)
        with store:
            yield Served(log, twin, store)
        return
    view, store = postgres_pair(request.param, request.getfixturevalue("database"))
    with store:
        yield Served(log, view, store)
    view.close()


@pytest.fixture
def filled(database: str, log: FakeLog) -> Iterator[PostgresView]:
    """The view in a database, for what it takes in."""
    view = PostgresView(database)
    yield view
    view.close()


@pytest.fixture(params=list(OPENERS))
def opener(request: pytest.FixtureRequest) -> Callable[[str], CheckpointStore]:
    """Makes a store of a conninfo, synchronous or not."""
    return OPENERS[request.param]
