"""`milepost consume`: checks that everything fits, then runs one worker here or several as processes of their own."""

from __future__ import annotations

import logging
import multiprocessing
import signal
import threading
from collections.abc import Mapping
from contextlib import closing
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Final

import msgspec

from milepost.consumer import kafka, queries
from milepost.consumer.config import ConsumeConfig
from milepost.consumer.database import connect, scalar, translated
from milepost.consumer.log import LogIdentity, check_topic, ends
from milepost.consumer.logs import configure
from milepost.consumer.migrate import require_current
from milepost.consumer.watch import require
from milepost.consumer.worker import Worker, WorkerReport
from milepost.schemas import MilepostError

logger = logging.getLogger(__name__)

_RESTART_SECONDS: Final = 1.0


class Task(msgspec.Struct, frozen=True):
    """What every worker of one `consume` is told."""

    config: ConsumeConfig
    log: LogIdentity
    group: str
    until: Mapping[int, int] | None


class Stop:
    """Set by SIGINT and SIGTERM: workers stop at a batch's end."""

    def __init__(self) -> None:
        self._event = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._handle)

    def __call__(self) -> bool:
        return self._event.is_set()

    def wait(self, seconds: float) -> None:
        """Wait that long, or until told to stop."""
        self._event.wait(seconds)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        self._event.set()


def consume(config: ConsumeConfig, *, processes: int = 1, until_caught_up: bool = False) -> WorkerReport:
    """Materialize the log into the view until SIGINT or SIGTERM; with `until_caught_up`, up to the log's end as it is now.

    Raises `WrongLog`, `WrongView`, `KafkaUnavailable` or `DatabaseUnavailable` when it cannot start; once it runs, it waits
    for a server that is away.
    """
    task = prepare(config, until_caught_up=until_caught_up)
    stop = Stop()
    if processes == 1:
        return Worker(task.config, task.log, task.group, stop=stop, until=task.until).run()
    return _Pool(task, processes, stop).run()


def prepare(config: ConsumeConfig, *, until_caught_up: bool) -> Task:
    """Check the log and the view against each other."""
    client = kafka.admin(config.kafka)
    with closing(connect(config.database)) as connection, translated(config.database):
        require_current(connection)
        log = require(client, config.kafka, connection, config.topic)
        view_id = scalar(connection, queries.load("materialize")["view_id"])
    check_topic(client, config.kafka, config.topic)
    until = ends(client, config.kafka, log) if until_caught_up else None
    return Task(config, log, f"milepost-{view_id}", until)


class _Pool:
    """Several workers. One that was killed is started again; one that says it cannot go on ends them all."""

    def __init__(self, task: Task, processes: int, stop: Stop) -> None:
        self._task = task
        self._processes = processes
        self._stop = stop
        self._context = multiprocessing.get_context("spawn")
        self._running: dict[Pipe, BaseProcess] = {}
        self._total = WorkerReport()
        self._error: MilepostError | None = None

    def run(self) -> WorkerReport:
        for _ in range(self._processes):
            self._start()
        told = False
        while self._running:
            if (self._stop() or self._error is not None) and not told:
                told = True
                for process in self._running.values():
                    process.terminate()
            for pipe in wait(list(self._running), timeout=0.2):
                if isinstance(pipe, Pipe):
                    self._reap(pipe)
        if self._error is not None:
            raise self._error
        return self._total

    def _start(self) -> None:
        ours, theirs = self._context.Pipe(duplex=False)
        process = self._context.Process(target=_work, args=(self._task, theirs, logging.getLogger().level), daemon=True)
        process.start()
        theirs.close()
        self._running[ours] = process

    def _reap(self, pipe: Pipe) -> None:
        process = self._running.pop(pipe)
        try:
            result = pipe.recv()
        except EOFError:
            result = None
        pipe.close()
        process.join()
        if isinstance(result, WorkerReport):
            self._total.applied += result.applied
            self._total.batches += result.batches
            self._total.fenced += result.fenced
        elif isinstance(result, MilepostError):
            self._error = self._error or result
        elif not self._stop() and self._error is None:
            logger.warning("a consumer process ended with %s; starting another", process.exitcode)
            self._stop.wait(_RESTART_SECONDS)
            self._start()


def _work(task: Task, pipe: Pipe, level: int) -> None:
    """What a child process runs: its report or its error goes back through the pipe."""
    configure(level)
    stop = Stop()
    try:
        pipe.send(Worker(task.config, task.log, task.group, stop=stop, until=task.until).run())
    except MilepostError as error:
        pipe.send(error)
