"""Several processes that do one job: started, restarted when killed, stopped together, their results collected."""

from __future__ import annotations

import logging
import multiprocessing
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Any, Final, Generic, TypeVar

from milepost.consumer.backoff import Backoff
from milepost.consumer.logs import configure
from milepost.schemas import MilepostError

logger = logging.getLogger(__name__)

_RESTART: Final = Backoff(1.0, 60.0)
_SOUND_SECONDS: Final = 120.0
"""A process that ran so long before it ended is no proof that the next one will fail."""
_HEAR_SECONDS: Final = 0.2
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


def share_out(sizes: Mapping[int, int], processes: int) -> list[dict[int, int]]:
    """Tasks of these sizes for each process, the largest first to whoever has least."""
    shares: list[dict[int, int]] = [{} for _ in range(processes)]
    for number, size in sorted(sizes.items(), key=lambda item: -item[1]):
        min(shares, key=lambda share: sum(share.values()))[number] = size
    return shares


class Pool(Generic[_Task, _News, _Result]):
    """Runs `work(task, stop, tell)` for each task in a process of its own.

    A process that was killed, or that crashed, is started again with the same task, after a pause that grows while it does not
    last; one that says it cannot go on ends them all.
    """

    def __init__(
        self,
        work: Callable[[_Task, Stop, Callable[[_News], None]], _Result],
        tasks: Sequence[_Task],
        stop: Stop,
        told: Callable[[int, _News], None],
        lives: Callable[[int, bool], None] = lambda _number, _running: None,
    ) -> None:
        """`told` gets what a process tells, `lives` whether it runs, at its start and at its end."""
        self._work = work
        self._tasks = tasks
        self._stop = stop
        self._told = told
        self._lives = lives
        self._context = multiprocessing.get_context("spawn")
        self._running: dict[Pipe, tuple[int, BaseProcess]] = {}
        self._due: dict[int, float] = {}
        self._began: dict[int, float] = {}
        self._failures = [0] * len(tasks)
        self._results: dict[int, _Result] = {}
        self._error: MilepostError | None = None

    def run(self) -> list[_Result]:
        """Run all to their end. Gives the results in the order of the tasks, without those that were killed while stopping.

        Raises the first error that a worker ended with.
        """
        for number in range(len(self._tasks)):
            self._start(number)
        told = False
        while self._running or self._due:
            if (self._stop() or self._error is not None) and not told:
                told = True
                self._due.clear()
                for _, process in self._running.values():
                    process.terminate()
            for number in [number for number, due in self._due.items() if time.monotonic() >= due]:
                del self._due[number]
                self._start(number)
            if not self._running:
                self._stop.wait(_HEAR_SECONDS)
            for pipe in wait(list(self._running), timeout=_HEAR_SECONDS) if self._running else ():
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
        self._began[number] = time.monotonic()
        self._lives(number, True)

    def _hear(self, pipe: Pipe) -> None:
        number, process = self._running[pipe]
        try:
            what, content = pipe.recv()
        except (EOFError, OSError):
            # OSError: it was killed in the middle of a word
            what, content = "killed", None
        if what == "news":
            self._told(number, content)
            return
        del self._running[pipe]
        pipe.close()
        process.join()
        self._lives(number, False)
        if what == "result":
            self._results[number] = content
        elif what == "error":
            self._error = self._error or content
        elif not self._stop() and self._error is None:
            self._start_later(number, process.exitcode)

    def _start_later(self, number: int, status: int | None) -> None:
        now = time.monotonic()
        self._failures[number] = 1 if now - self._began[number] >= _SOUND_SECONDS else self._failures[number] + 1
        pause = _RESTART.seconds(self._failures[number])
        self._due[number] = now + pause
        logger.warning(
            "process %d ended with %s, %d times in a row; starting another in %.1f s",
            *(number + 1, status, self._failures[number], pause),
            extra={"event": "worker_ended", "worker": number + 1},
        )


def _run_child(work: Callable[..., Any], task: object, pipe: Pipe, level: int) -> None:
    """What a child process runs: news, then its result or its error, go back through the pipe."""
    configure(level)
    try:
        pipe.send(("result", work(task, Stop(), lambda news: pipe.send(("news", news)))))
    except MilepostError as error:
        pipe.send(("error", error))
    except Exception:
        logger.exception("the process crashed", extra={"event": "worker_crashed"})
        raise SystemExit(1) from None
