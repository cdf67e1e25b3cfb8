"""Every kind of store behind one face, so that one suite holds for all of them."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable
from typing import Any, Protocol, cast

from milepost.consumer.async_store import AsyncCheckpointStore
from milepost.consumer.records import LogRecord
from milepost.consumer.store import CheckpointStore
from milepost.consumer.testing import AsyncMemoryStore, MemoryStore, MemoryView
from tests.fixtures.view import PARTITIONS, PostgresView


class View(Protocol):
    """What takes in records."""

    def apply(self, records: Iterable[LogRecord]) -> object: ...


class Awaited:
    """An asynchronous store that is asked like a synchronous one: each call runs in its event loop to the end."""

    def __init__(self, make: Callable[[], AsyncCheckpointStore]) -> None:
        self._runner = asyncio.Runner()
        try:
            self._store = self.run(_made(make))
        except BaseException:
            self._runner.close()
            raise

    def run(self, coroutine: Any) -> Any:
        return self._runner.run(coroutine)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if not inspect.iscoroutinefunction(method):
            return method
        return lambda *arguments, **named: self.run(method(*arguments, **named))

    def __enter__(self) -> Awaited:
        self.run(self._store.__aenter__())
        return self

    def __exit__(self, *error: object) -> None:
        self.run(self._store.__aexit__(None, None, None))
        self._runner.close()


async def _made(make: Callable[[], AsyncCheckpointStore]) -> AsyncCheckpointStore:
    return make()


def awaited(make: Callable[[], AsyncCheckpointStore]) -> CheckpointStore:
    """An asynchronous store with the face of a synchronous one."""
    return cast(CheckpointStore, Awaited(make))


def open_sync(database: str) -> CheckpointStore:
    return CheckpointStore(database)


def open_async(database: str) -> CheckpointStore:
    return awaited(lambda: AsyncCheckpointStore(database))


OPENERS: dict[str, Callable[[str], CheckpointStore]] = {"sync": open_sync, "async": open_async}
"""The stores of a real server, by conninfo."""


def memory_pair(kind: str) -> tuple[MemoryView, CheckpointStore]:
    """The twin and a store over it."""
    view = MemoryView(partitions=PARTITIONS)
    return view, MemoryStore(view) if kind == "twin" else awaited(lambda: AsyncMemoryStore(view))


def postgres_pair(kind: str, database: str) -> tuple[PostgresView, CheckpointStore]:
    """The view in a database and a store over it."""
    return PostgresView(database), OPENERS[kind](database)
