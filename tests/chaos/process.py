"""A process beside ours: its log, its signals, its death and its return."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil
import psycopg
from confluent_kafka import KafkaException

from milepost.embedded import EmbeddedError
from milepost.schemas import MilepostError
from tests.chaos.forked import Forked
from tests.chaos.signals import unbroken

ROOT: Final = Path(__file__).parents[2]
LIMIT_SECONDS: Final = 60.0
ERRORS: Final = (
    *(AssertionError, OSError, subprocess.SubprocessError, psutil.Error),
    *(MilepostError, EmbeddedError, KafkaException, psycopg.Error),
)
"""What may be raised in the course of a round, TimeoutError being an OSError."""


def wait_until(condition: Callable[[], bool], what: str, limit: float = LIMIT_SECONDS) -> None:
    """Wait until a condition holds. Raises TimeoutError saying what did not come."""
    end = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {limit:g} s for {what}")
        time.sleep(0.04)


class Child:
    """A Python module that runs as a process; in a session of its own, so that Ctrl-C reaches us alone."""

    def __init__(self, module: str, arguments: Sequence[str], variables: Mapping[str, str], log: Path) -> None:
        self._command: Final = [sys.executable, "-m", module, *arguments]
        self._variables: Final = variables
        self._log: Final = log
        self._read = self._began = 0
        self._process: subprocess.Popen[bytes] | Forked | None = None

    def start(self) -> None:
        """Start it when it does not run."""
        if not self.is_alive:
            self._began = self._size()
            # one that was started and is not known yet would be left behind
            with unbroken():
                self._process = self._started()

    def _started(self) -> subprocess.Popen[bytes] | Forked:
        with self._log.open("ab") as lines:
            return subprocess.Popen(
                self._command,
                env={**os.environ, **self._variables},
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=lines,
                stderr=lines,
                start_new_session=True,
            )

    @property
    def is_alive(self) -> bool:
        """Whether it runs, stopped or not."""
        return self._process is not None and self._process.poll() is None

    def signal(self, number: int, *, family: bool = True) -> None:
        """Signal it and, with `family`, its children; nothing when it does not run."""
        if self._process is None or self._process.poll() is not None:
            return
        # it may end at any time, its children before it
        with suppress(psutil.NoSuchProcess):
            first = psutil.Process(self._process.pid)
            # SIGTERM goes to the first alone, as from an operator
            for each in [*(first.children() if family and number != signal.SIGTERM else []), first]:
                with suppress(psutil.Error):
                    each.send_signal(number)

    def say(self, line: str) -> None:
        """Write a line to its standard input; nothing when it is dead."""
        if self._process is not None and self._process.stdin is not None:
            # ValueError: it is dead, and its end was seen
            with suppress(OSError, ValueError):
                self._process.stdin.write(line.encode() + b"\n")
                self._process.stdin.flush()

    def wait(self, limit: float = LIMIT_SECONDS) -> int:
        """Wait for its end and give its exit status."""
        if self._process is None:
            return 0
        status = self._process.wait(limit)
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        return status

    def ended(self, limit: float) -> int | None:
        """Its exit status once it has ended, None when it does not end in time."""
        try:
            return self.wait(limit)
        except subprocess.TimeoutExpired:
            return None

    def end(self) -> None:
        """End it, whatever it does."""
        self.signal(signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self.wait(10)

    def mark(self) -> None:
        """What `said` gives begins here."""
        self._read = self._size()

    @property
    def is_new(self) -> bool:
        """Whether it has said nothing since its start: it may not listen to signals yet."""
        return self._size() == self._began

    def _size(self) -> int:
        return self._log.stat().st_size if self._log.exists() else 0

    def said(self) -> str:
        """What it wrote to its log since `mark`."""
        with self._log.open("rb") as lines:
            lines.seek(self._read)
            return lines.read().decode(errors="replace")


class Quick(Child):
    """A consumer of one process, forked; see `Forked`."""

    def __init__(self, arguments: Sequence[str], variables: Mapping[str, str], log: Path) -> None:
        super().__init__("tests.chaos.consumer", arguments, variables, log)
        self._arguments: Final = arguments

    def _started(self) -> Forked:
        return Forked(self._arguments, self._variables, self._log)
