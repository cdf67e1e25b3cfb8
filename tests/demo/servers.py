"""What runs during the demo: the two servers, and two consumer processes under the real command."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from milepost.embedded import Stack

STOP_SECONDS = 30


@contextmanager
def running_stack(directory: Path) -> Iterator[Mapping[str, str]]:
    """Both servers in a folder of their own; gives the three variables. Nothing of it is left after."""
    stack = Stack(directory)
    stack.destroy()
    try:
        stack.up()
        yield {**os.environ, **stack.environment()}
    finally:
        stack.destroy()
        shutil.rmtree(directory, ignore_errors=True)


def milepost(environment: Mapping[str, str], *arguments: str) -> str:
    """Run a command to its end and give its standard output."""
    done = subprocess.run([*_command(), *arguments], env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


@contextmanager
def consuming(environment: Mapping[str, str], log: Path) -> Iterator[None]:
    """Two consumer processes, stopped by SIGTERM at the end."""
    with log.open("wb") as lines:
        process = subprocess.Popen(
            [*_command(), "consume", "--processes", "2"], env=environment, stdout=lines, stderr=lines
        )
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            status = process.wait(STOP_SECONDS)
    if status:
        raise RuntimeError(f"expected milepost consume to end with 0, found {status}: {log.read_text()[-2000:]}")


def _command() -> list[str]:
    return [str(Path(sys.executable).parent / "milepost")]
