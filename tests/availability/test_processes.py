"""A worker that crashes again and again is started after growing pauses, and what it told stays readable."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from milepost.consumer import processes
from milepost.consumer.backoff import Backoff
from milepost.consumer.processes import Pool
from tests.availability.running import Lines


class Never:
    """Nobody tells it to stop."""

    def __call__(self) -> bool:
        return False

    def wait(self, seconds: float) -> None:
        """Not at all."""


def crash_twice(folder: str, stop: Callable[[], bool], tell: Callable[[str], None]) -> str:
    """Each run leaves a file: the first one crashes, the second one is killed, the third one comes to its end."""
    runs = len(list(Path(folder).iterdir()))
    (Path(folder) / str(runs)).touch()
    tell(f"run {runs}")
    if runs == 0:
        raise KeyError("planted")
    if runs == 1:
        os._exit(7)
    return "done"


def test_it_is_started_again_after_growing_pauses(
    tmp_path: Path, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_RESTART", Backoff(0.01, 1.0))
    happened: list[object] = []
    stop: Any = Never()
    pool: Pool[str, str, str] = Pool(
        crash_twice,
        [str(tmp_path)],
        stop,
        lambda _, news: happened.append(news),
        lambda _, running: happened.append(running),
    )
    assert pool.run() == ["done"]
    assert happened == [True, "run 0", False, True, "run 1", False, True, "run 2", False]
    found = [line.getMessage() for line in lines.of("worker_ended")]
    assert [message.split(";")[0] for message in found] == [
        "process 1 ended with 1, 1 times in a row",
        "process 1 ended with 7, 2 times in a row",
    ]


def test_pauses() -> None:
    pauses = [processes._RESTART.seconds(number) for number in (1, 2, 3, 20, 2_000)]
    for pause, most in zip(pauses, (1, 2, 4, 60, 60), strict=True):
        assert 0.75 * most <= pause <= most
