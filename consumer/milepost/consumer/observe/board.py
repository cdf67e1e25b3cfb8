"""The side of whoever answers: the latest word of each worker, and what those that are gone had counted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from milepost.consumer.observe.metrics import RESTARTS
from milepost.consumer.observe.tallies import Tallies, WorkerState

_decoder: Final = msgspec.msgpack.Decoder(WorkerState)


class Seen(msgspec.Struct, frozen=True):
    """A worker as it was last heard of."""

    number: int
    running: bool
    silence: float
    """Seconds since its last word, or since its start or its end."""
    state: WorkerState | None
    """None until its first word, and after its end: the gauges of a dead worker are nobody's."""


class Board:
    """Holds what workers tell. For many threads. Nothing is decoded until somebody asks, but at a worker's end."""

    def __init__(self, workers: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._latest: dict[int, bytes] = {}
        self._running: dict[int, bool] = dict.fromkeys(range(workers), False)
        self._heard = dict.fromkeys(range(workers), clock())
        self._past = Tallies.zero()
        self._starts = [0] * workers

    def told(self, number: int, state: bytes) -> None:
        """A worker has told its state."""
        with self._lock:
            self._latest[number] = state
            self._heard[number] = self._clock()

    def lives(self, number: int, running: bool) -> None:
        """A worker has begun, or has ended: its counts stay, how it stood does not."""
        with self._lock:
            self._running[number] = running
            self._heard[number] = self._clock()
            if (last := self._latest.pop(number, None)) is not None:
                self._past.add(_decoder.decode(last).tallies)
            if running:
                self._starts[number] += 1
                if self._starts[number] > 1:
                    self._past.count(RESTARTS)

    def workers(self) -> list[Seen]:
        """Every worker as it was last heard of, in order."""
        with self._lock:
            return self._seen()

    def totals(self) -> tuple[list[Seen], Tallies]:
        """Every worker, and what all of them have counted, those that are gone included; of one moment."""
        total = Tallies.zero()
        with self._lock:
            total.add(self._past)
            seen = self._seen()
        for each in seen:
            if each.state is not None:
                total.add(each.state.tallies)
        return seen, total

    def _seen(self) -> list[Seen]:
        now = self._clock()
        return [
            Seen(
                number,
                running,
                now - self._heard[number],
                _decoder.decode(self._latest[number]) if number in self._latest else None,
            )
            for number, running in sorted(self._running.items())
        ]


def positions(seen: Sequence[Seen]) -> dict[int, int]:
    """The next offset of each partition that any of the workers has."""
    return {
        partition: offset
        for each in seen
        if each.state is not None
        for partition, offset in each.state.positions.items()
    }
