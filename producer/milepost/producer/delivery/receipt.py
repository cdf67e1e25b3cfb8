"""What `publish` gives back: a promise of the place in the log."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import partial
from typing import Final
from uuid import UUID

from milepost.producer.guard import finite
from milepost.schemas import DeliveryFailed, Position

_REGISTERING = threading.Lock()  # one for all receipts: it is held for a list's append, and only by who waits


class Receipt:
    """What becomes of one published event. Safe to use from any thread and any event loop, any number of times.

    Nobody has to look at it: what is not delivered is also counted, logged and told to `on_failure`.
    """

    __slots__ = ("__weakref__", "_outcome", "_waiters", "checkpoint_id", "event_id")

    def __init__(self, event_id: UUID, checkpoint_id: str | None) -> None:
        self.event_id: Final = event_id
        self.checkpoint_id: Final = checkpoint_id
        """None for a deletion."""
        self._outcome: Position | DeliveryFailed | None = None
        self._waiters: list[Callable[[], None]] | None = None

    def done(self) -> bool:
        """Whether the event is in the log or has failed. Never blocks."""
        return self._outcome is not None

    def result(self, timeout: float | None = None) -> Position:
        """Where the log put the event, once all in-sync replicas have it.

        Blocks for at most `timeout` seconds, or for as long as it takes. Raises `TimeoutError` when they have passed,
        and `DeliveryFailed` when the event did not reach the log.
        """
        limit = None if timeout is None else finite(timeout)
        if self._outcome is None:
            event = threading.Event()
            self._enlist(event.set)
            try:
                if self._outcome is None and not event.wait(limit) and self._outcome is None:
                    raise TimeoutError(f"event {self.event_id} is still under way after {timeout} s")
            finally:
                self._dismiss(event.set)
        return self._unwrap()

    def __await__(self) -> Generator[object, None, Position]:
        """As `result`, for asyncio: waits without a limit and without blocking the loop."""
        if self._outcome is None:
            loop = asyncio.get_running_loop()
            future: asyncio.Future[None] = loop.create_future()
            waiter = partial(_wake, loop, future)
            self._enlist(waiter)
            try:
                if self._outcome is None:
                    yield from future
            finally:
                self._dismiss(waiter)
        return self._unwrap()

    def __repr__(self) -> str:
        state = "under way" if self._outcome is None else str(self._outcome)
        return f"<Receipt of event {self.event_id}: {state}>"

    def settle(self, outcome: Position | DeliveryFailed) -> None:
        """For the publisher: what became of the event. Wakes all who wait."""
        # first the outcome, then the waiters: who enlists too late to be seen here sees the outcome there
        self._outcome = outcome
        if self._waiters:
            for wake in tuple(self._waiters):
                wake()

    def _enlist(self, waiter: Callable[[], None]) -> None:
        with _REGISTERING:
            if self._waiters is None:
                self._waiters = []
            self._waiters.append(waiter)

    def _dismiss(self, waiter: Callable[[], None]) -> None:
        with _REGISTERING:
            if self._waiters is not None:
                self._waiters.remove(waiter)

    def _unwrap(self) -> Position:
        outcome = self._outcome
        if isinstance(outcome, Position):
            return outcome
        if outcome is None:  # only after a spurious wake-up, which none of ours causes
            raise TimeoutError(f"event {self.event_id} is still under way")
        # a new one each time: one exception raised by many waiters would pile up their tracebacks
        raise DeliveryFailed(outcome.event_id, outcome.reason, outcome.detail)


def renew_lock() -> None:
    """In a forked child: a thread that is not there may have held it."""
    global _REGISTERING  # noqa: PLW0603 - one for all
    _REGISTERING = threading.Lock()


def _wake(loop: asyncio.AbstractEventLoop, future: asyncio.Future[None]) -> None:
    with suppress(RuntimeError):  # the loop was closed: nobody waits there any more
        loop.call_soon_threadsafe(_resolve, future)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
