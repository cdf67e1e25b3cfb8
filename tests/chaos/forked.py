"""Consumers of one process each, forked from one that has all modules loaded: ready in a tenth of a new Python's time."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

from milepost.consumer.cli import main
from tests.chaos import consumer, planted

_CONTEXT: Final = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([__name__, "milepost.consumer.cli.commands"])


class Forked:
    """A running `tests.chaos.consumer`, with what is used of Popen."""

    stdin: None = None

    def __init__(self, arguments: Sequence[str], variables: Mapping[str, str], log: Path) -> None:
        self._process: Final = _CONTEXT.Process(target=_run, args=(arguments, variables, str(log)), daemon=True)
        self._process.start()
        assert self._process.pid is not None
        self.pid: Final = self._process.pid
        self._seen: psutil.Process | None = None
        with suppress(psutil.Error):  # it has ended already
            self._seen = psutil.Process(self.pid)

    def poll(self) -> int | None:
        """Its exit status, None while it runs."""
        # the status comes from the process that forked it, which says that it ended when it is killed itself
        with suppress(psutil.Error):
            if self._seen is not None and self._seen.status() != psutil.STATUS_ZOMBIE and self._seen.is_running():
                return None
        return self._process.exitcode

    def wait(self, limit: float) -> int:
        """Wait for its end and give its exit status. Raises TimeoutExpired."""
        self._process.join(limit)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("milepost", limit)
        return self._process.exitcode


def _run(arguments: Sequence[str], variables: Mapping[str, str], log: str) -> None:
    os.setsid()
    lines = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for stream in (1, 2):
        os.dup2(lines, stream)
    os.environ.update(variables)
    consumer.hurry()
    planted.plant(variables.get(planted.VARIABLE, ""))
    sys.argv[1:] = arguments
    main()
