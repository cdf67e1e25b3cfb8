"""A run of faults that is told to stop ends what it started, and is not told twice."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.chaos.signals import stop_on_signals, unbroken


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    """What the run of pytest does about signals is as before."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    stop_on_signals()
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_a_run_once(number: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)
    signal.raise_signal(number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_ending_is_not_broken_off(number: int) -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), unbroken():
        signal.raise_signal(number)
        done.append("the rest")
    assert done == ["the rest"]
