"""Waiting for the view to reach a position: what was found says how long to pause, or that it is over."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from milepost.consumer.reading import Read, next_offset
from milepost.schemas import Position, WrongLog

FIRST_PAUSE_SECONDS: Final = 0.005
LONGEST_PAUSE_SECONDS: Final = 0.05
_GROWTH: Final = 1.5


class Wait:
    """One wait. Ask `read`, give `pause` what it answered, pause, and again."""

    def __init__(self, position: Position, timeout: float, clock: Callable[[], float] = time.monotonic) -> None:
        if not isinstance(position, Position):
            raise TypeError(f"position: expected a Position, found {type(position).__name__}")
        self.read: Read[tuple[str | None, int | None]] = next_offset(position.partition)
        self._position = position
        self._timeout = timeout
        self._clock = clock
        self._deadline = clock() + timeout
        self._pause = FIRST_PAUSE_SECONDS

    def pause(self, found: tuple[str | None, int | None]) -> float | None:
        """How many seconds to pause before asking again; None when the position is reached.

        Raises `WrongLog` when this view can never reach it, `TimeoutError` when the time is over.
        """
        topic, offset = found
        position = self._position
        if topic is not None and topic != position.topic:
            raise WrongLog(f"expected a position in the log of this view, topic {topic}, found {position}")
        if topic is not None and offset is None:
            raise WrongLog(
                f"expected a position in the log of this view, which has no such partition, found {position}"
            )
        if offset is not None and offset > position.offset:
            return None
        remaining = self._deadline - self._clock()
        if remaining <= 0:
            raise TimeoutError(f"{position} was not in the view after {self._timeout:g} s: {self._progress(offset)}")
        pause = min(self._pause, remaining)
        self._pause = min(self._pause * _GROWTH, LONGEST_PAUSE_SECONDS)
        return pause

    def _progress(self, offset: int | None) -> str:
        if offset is None:
            return "the view has not begun to read a log; is a consumer running?"
        missing = self._position.offset + 1 - offset
        return f"the next record it will take is {self._position.partition}@{offset}, {missing} to go"
