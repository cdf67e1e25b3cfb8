"""Processes that outlive us: started, found again, and never confused with someone else's."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import psutil
from tenacity import RetryCallState, Retrying, retry_if_result, stop_after_delay, wait_fixed

from milepost.embedded.errors import EmbeddedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_LAUNCHER = str(Path(__file__).with_name("launch.py"))
# create times are counted from the boot time, which a set clock moves a little
_CREATED_TOLERANCE = 2.0
_PAUSE = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How a program is run: `command` with a full path first, `folder` to work in, `identity` as launch.py has it."""

    command: Sequence[str]
    folder: Path
    environment: Mapping[str, str]
    identity: str = "same"

    def arguments(self, kind: Literal["daemon", "helper"]) -> list[str]:
        """The whole command line, launcher included."""
        return [sys.executable, "-I", "-S", _LAUNCHER, kind, self.identity, str(self.folder), *self.command]


def spawn(launch: Launch, log: Path) -> psutil.Process:
    """Starts a daemon whose output is appended to `log`. It survives this process, whose child it is until then."""
    outputs = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    arguments = launch.arguments("daemon")
    # not Popen: it complains when it is dropped while its child runs, and running on is the point
    return psutil.Process(os.posix_spawn(arguments[0], arguments, dict(launch.environment), file_actions=outputs))


def run(launch: Launch, limit: float) -> subprocess.CompletedProcess[str]:
    """Runs a helper to its end, which is ours at the latest; both outputs captured. EmbeddedError after `limit` s."""
    try:
        return subprocess.run(
            launch.arguments("helper"),
            env=dict(launch.environment),
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        message = f"{launch.command[0]} did not end within {limit:.0f} s: is this machine overloaded, or its disk full?"
        raise EmbeddedError(message) from error


def is_alive(process: psutil.Process) -> bool:
    """Whether it runs. A dead child of ours is reaped on the way."""
    try:
        if process.status() != psutil.STATUS_ZOMBIE:
            return process.is_running()
    except psutil.NoSuchProcess:
        return False
    with suppress(ChildProcessError):
        os.waitpid(process.pid, os.WNOHANG)
    return False


def recorded(pid: int | None, created: float | None, signature: Iterable[str]) -> psutil.Process | None:
    """The live process with that pid, if it was created then and `signature` stands in its command line."""
    if pid is None or created is None:
        return None
    try:
        process = psutil.Process(pid)
        command_line = process.cmdline()
        # empty for a moment while the launcher becomes the server (execve)
        ours = abs(process.create_time() - created) < _CREATED_TOLERANCE and (
            not command_line or _bears(command_line, signature)
        )
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return None
    return process if ours and is_alive(process) else None


def unrecorded(signature: Iterable[str]) -> psutil.Process | None:
    """A live process with `signature` in its command line: a server whose record was lost, or never written."""
    for process in psutil.process_iter(["cmdline"]):
        if _bears(process.info["cmdline"] or (), signature) and is_alive(process):
            return process
    return None


def working_in(folder: Path, name: str) -> list[psutil.Process]:
    """The live processes called `name` whose working folder is `folder`: what a killed server left behind."""
    found = psutil.process_iter(["name", "cwd"])
    return [p for p in found if p.info["name"] == name and p.info["cwd"] == str(folder) and is_alive(p)]


def end(processes: Sequence[psutil.Process], signals: Iterable[tuple[int, float]]) -> None:
    """Sends each signal in turn to whoever is left, waiting for its seconds after it.

    Raises EmbeddedError when a process is not ours to signal, or outlives them all.
    """
    left = list(processes)
    for number, limit in signals:
        for process in left:
            with suppress(psutil.NoSuchProcess):
                send(process, number)
        left = outliving(left, limit)
        if not left:
            return
    pids = ", ".join(str(process.pid) for process in left)
    raise EmbeddedError(
        f"process {pids} did not end, not even by SIGKILL: see what it waits for with `ps -o pid,stat,wchan`"
    )


def outliving(processes: Iterable[psutil.Process], limit: float) -> list[psutil.Process]:
    """Waits up to `limit` seconds for all to end; returns those that have not. A zombie has ended."""
    polling = Retrying(
        stop=stop_after_delay(limit),
        wait=wait_fixed(_PAUSE),
        retry=retry_if_result(bool),
        retry_error_callback=_last_result,
    )
    left: list[psutil.Process] = polling(lambda: [process for process in processes if is_alive(process)])
    return left


def _last_result(state: RetryCallState) -> object:
    return None if state.outcome is None else state.outcome.result()


def send(process: psutil.Process, number: int) -> None:
    """Sends a signal. Raises psutil.NoSuchProcess, and EmbeddedError when the process is another user's."""
    try:
        process.send_signal(number)
    except psutil.AccessDenied as error:
        message = f"process {process.pid} of this stack belongs to {process.username()}: run the command as that user"
        raise EmbeddedError(message) from error


def _bears(command_line: Sequence[str], signature: Iterable[str]) -> bool:
    return all(part in command_line for part in signature)
