"""Ctrl-C and SIGTERM end a run, and do not break off its ending: servers and consumers must not be left behind."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_NUMBERS: Final = (signal.SIGINT, signal.SIGTERM)


def stop_on_signals() -> None:
    """Both raise KeyboardInterrupt, once."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        ignore_signals(*_NUMBERS)
        raise KeyboardInterrupt

    for number in _NUMBERS:
        signal.signal(number, stop)


def ignore_signals(*numbers: int) -> None:
    """Ignore them from now on, in this process and in none that it starts."""
    for number in numbers:
        signal.signal(number, lambda _number, _frame: None)


@contextmanager
def unbroken() -> Iterator[None]:
    """Keep both back until the end of what is done in it. For the main thread, which alone is interrupted by signals."""
    came: list[int] = []
    before = {number: signal.signal(number, lambda number, _frame: came.append(number)) for number in _NUMBERS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])
