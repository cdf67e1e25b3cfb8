"""Several processes that do one job: started, restarted when killed, stopped together, their results collected."""

from __future__ import annotations

import logging
import multiprocessing
import signal
import threading
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Any, Final, Generic, TypeVar

from milepost.consumer.logs import configure
from milepost.schemas import MilepostError

logger = logging.getLogger(__name__)

_RESTART_SECONDS: Final = 1.0
_Task = TypeVar("_Task")
_News = TypeVar("_News")
_Result = TypeVar("_Result")


class Stop:
    """Set by SIGINT and SIGTERM: workers stop at a batch's end. Also set for a worker whose parent was killed."""

    def __init__(self) -> None:
        self._event = threading.Event()
        # a pool that was killed cannot tell its workers to stop
        self._parent = multiprocessing.parent_process()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._handle)

    def __call__(self) -> bool:
        return self._event.is_set() or (self._parent is not None and not self._parent.is_alive())

    def wait(self, seconds: float) -> None:
        """Wait that long, or until told to stop."""
        self._event.wait(seconds)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        self._event.set()


class Pool(Generic[_Task, _News, _Result]):
    """Runs `work(task, stop, tell)` for each task in a process of its own.

    A process that was killed is started again with the same task; one that says it cannot go on ends them all.
    """

    def __init__(
        self,
        work: Callable[[_Task, Stop, Callable[[_News], None]], _Result],
        tasks: Sequence[_Task],
        stop: Stop,
        told: Callable[[int, _News], None],
    ) -> None:
        self._work = work
        self._tasks = tasks
        self._stop = stop
        self._told = told
        self._context = multiprocessing.get_context("spawn")
        self._running: dict[Pipe, tuple[int, BaseProcess]] = {}
        self._results: dict[int, _Result] = {}
        self._error: MilepostError | None = None

    def run(self) -> list[_Result]:
        """Run all to their end. Gives the results in the order of the tasks, without those that were killed while stopping.

        Raises the first error that a worker ended with.
        """
        for number in range(len(self._tasks)):
            self._start(number)
        told = False
        while self._running:
            if (self._stop() or self._error is not None) and not told:
                told = True
                for _, process in self._running.values():
                    process.terminate()
            for pipe in wait(list(self._running), timeout=0.2):
                if isinstance(pipe, Pipe):
                    self._hear(pipe)
        if self._error is not None:
            raise self._error
        return [self._results[number] for number in sorted(self._results)]

    def _start(self, number: int) -> None:
        ours, theirs = self._context.Pipe(duplex=False)
        level = logging.getLogger().level
        process = self._context.Process(
            target=_run_child, args=(self._work, self._tasks[number], theirs, level), daemon=True
        )
        process.start()
        theirs.close()
        self._running[ours] = (number, process)

    def _hear(self, pipe: Pipe) -> None:
        number, process = self._running[pipe]
        try:
            what, content = pipe.recv()
        except EOFError:
            what, content = "killed", None
        if what == "news":
            self._told(number, content)
            return
        del self._running[pipe]
        pipe.close()
        process.join()
        if what == "result":
            self._results[number] = content
        elif what == "error":
            self._error = self._error or content
        elif not self._stop() and self._error is None:
            logger.warning("process %d ended with %s; starting another", number + 1, process.exitcode)
            self._stop.wait(_RESTART_SECONDS)
            self._start(number)


def _run_child(work: Callable[..., Any], task: object, pipe: Pipe, level: int) -> None:
    """What a child process runs: news, then its result or its error, go back through the pipe."""
    configure(level)
    try:
        pipe.send(("result", work(task, Stop(), lambda news: pipe.send(("news", news)))))
    except MilepostError as error:
        pipe.send(("error", error))
