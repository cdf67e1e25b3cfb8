"""A run shared out among processes, each with servers of its own: a round hangs on seed and number, not on who runs it."""

from __future__ import annotations

import multiprocessing
import signal
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final

from tests.chaos.run import ROUNDS_OF_A_WORLD, Run, Summary
from tests.chaos.schedule import Round
from tests.chaos.servers import Servers
from tests.chaos.signals import ignore_signals, stop_on_signals

_CONTEXT: Final = multiprocessing.get_context("spawn")


class Jobs:
    """Processes that ask us for rounds until there are none, enough of them failed, or we are told to stop."""

    def __init__(self, jobs: int, seed: int, kept: Path, tell: Callable[[Summary, Round], None], bug: str = "") -> None:
        self._jobs: Final = jobs
        self._seed: Final = seed
        self._kept: Final = kept
        self._tell: Final = tell
        self._bug: Final = bug
        self._left: Final[deque[list[int]]] = deque()
        self._processes: Final[dict[Pipe, BaseProcess]] = {}
        self._summaries: Final[dict[Pipe, Summary]] = {}

    @property
    def summary(self) -> Summary:
        """What all of them have done so far."""
        together = Summary(self._seed)
        for each in self._summaries.values():
            together.add(each)
        return together

    def run(self, first: int, rounds: int, *, most_failures: int = 1) -> None:
        """Run rounds of these numbers. Raises RuntimeError when a process ends that has not run all it took."""
        numbers = list(range(first, first + rounds))
        # rounds that share a world in a run of one process share it here
        self._left.extend(numbers[at : at + ROUNDS_OF_A_WORLD] for at in range(0, rounds, ROUNDS_OF_A_WORLD))
        try:
            for job in range(1, self._jobs + 1):
                self._start(self._kept / f"job-{job}")
            listening = set(self._processes)
            while listening and len(self.summary.failures) < most_failures:
                listening -= {pipe for pipe in wait(list(listening)) if isinstance(pipe, Pipe) and not self._hear(pipe)}
        finally:
            for process in self._processes.values():
                process.terminate()
            for process in self._processes.values():
                process.join()

    def _start(self, folder: Path) -> None:
        ours, theirs = _CONTEXT.Pipe()
        process = _CONTEXT.Process(target=_run, args=(theirs, self._seed, self._kept, folder, self._bug))
        process.start()
        # so that we hear of its end
        theirs.close()
        self._processes[ours] = process

    def _hear(self, pipe: Pipe) -> bool:
        """Take how far one is, and give it rounds when it has none; whether it goes on."""
        try:
            summary, one = pipe.recv()
        except (EOFError, OSError):
            self._processes[pipe].join()
            status = self._processes[pipe].exitcode
            raise RuntimeError(f"a process that runs rounds ended with {status}: see what it wrote") from None
        self._summaries[pipe] = summary
        if one is not None:
            self._tell(self.summary, one)
            return True
        numbers = self._left.popleft() if self._left else []
        pipe.send(numbers)
        return bool(numbers)


def _run(pipe: Pipe, seed: int, kept: Path, folder: Path, bug: str) -> None:
    """What a process does: ask for rounds and run them. It ends, too, when nobody is there to be asked."""
    stop_on_signals()
    # Ctrl-C at a terminal reaches us, too, but we are ended by who started us
    ignore_signals(signal.SIGINT)
    run = Run(seed, kept, lambda summary, one: pipe.send((summary, one)), bug)

    def asked() -> list[int]:
        pipe.send((run.summary, None))
        numbers: list[int] = pipe.recv()
        return numbers

    with suppress(KeyboardInterrupt, EOFError, ConnectionError), Servers.of_a_run(folder) as servers:
        while numbers := asked():
            while numbers:
                numbers = run.run_world(servers, folder, numbers)
