"""`milepost consume`: checks that everything fits, then runs one worker here or several as processes of their own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import msgspec

from milepost.consumer import kafka, queries
from milepost.consumer.config import ConsumeConfig
from milepost.consumer.database import connect, scalar, translated
from milepost.consumer.integrity.keys import keyring
from milepost.consumer.integrity.signer import require_same
from milepost.consumer.log import LogIdentity, check_topic, ends
from milepost.consumer.migrate import require_current
from milepost.consumer.observe import Observer
from milepost.consumer.processes import Pool, Stop
from milepost.consumer.replay.plan import require_whole
from milepost.consumer.watch import require
from milepost.consumer.worker import Worker, WorkerReport
from milepost.schemas import MilepostError

logger = logging.getLogger(__name__)

if TYPE_CHECKING:
    from milepost.consumer.observe.observatory import Observatory


class Task(msgspec.Struct, frozen=True):
    """What every worker of one `consume` is told."""

    config: ConsumeConfig
    log: LogIdentity
    group: str
    until: Mapping[int, int] | None


def consume(
    config: ConsumeConfig, *, processes: int = 1, until_caught_up: bool = False, stop: Stop | None = None
) -> WorkerReport:
    """Materialize the log into the view until SIGINT or SIGTERM; with `until_caught_up`, up to the log's end as it is now.

    Raises `WrongLog`, `WrongView`, `KafkaUnavailable` or `DatabaseUnavailable` when it cannot start; once it runs, it waits
    for a server that is away, and a partition that is stopped ends it with `until_caught_up` alone (`MilepostError`). With
    `config.http` it answers there from before its first look at the servers; raises `InvalidSetting` or `MilepostError` when it
    cannot.
    """
    # before anything else: a signal that comes early must end it well, too
    stop = stop or Stop()
    with _observed(config, processes) as observatory:
        task = prepare(config, until_caught_up=until_caught_up)
        if observatory is None:
            return _run(task, processes, stop, lambda _number, _state: None, lambda _number, _running: None)
        observatory.begin(config, task.log)
        return _run(task, processes, stop, observatory.board.told, observatory.board.lives)


@contextmanager
def _observed(config: ConsumeConfig, processes: int) -> Iterator[Observatory | None]:
    if config.http is None:
        yield None
        return
    # only now: who does not ask for it does not load it
    from milepost.consumer.observe.observatory import Observatory

    with closing(Observatory(config.http, processes, config.stuck_seconds)) as observatory:
        yield observatory


def _run(
    task: Task,
    processes: int,
    stop: Stop,
    told: Callable[[int, bytes], None],
    lives: Callable[[int, bool], None],
) -> WorkerReport:
    if processes == 1:
        lives(0, True)
        try:
            return _work(task, stop, lambda state: told(0, state))
        except MilepostError:
            raise
        except Exception:
            logger.exception("the consumer crashed", extra={"event": "worker_crashed"})
            raise
    return _added(Pool(_work, [task] * processes, stop, told, lives).run())


def prepare(config: ConsumeConfig, *, until_caught_up: bool) -> Task:
    """Check the log and the view against each other."""
    # a file that is no key is found out here, and not by each worker
    keys = keyring(config.integrity_keys)
    client = kafka.admin(config.kafka)
    with closing(connect(config.database)) as connection, translated(config.database):
        require_current(connection)
        require_whole(connection)
        require_same(connection, keys is not None)
        log = require(client, config.kafka, connection, config.topic)
        group = scalar(connection, queries.load("materialize")["consumer_group"])
    check_topic(client, config.kafka, config.topic)
    until = ends(client, config.kafka, log) if until_caught_up else None
    return Task(config, log, str(group), until)


def _work(task: Task, stop: Stop, tell: Callable[[bytes], None]) -> WorkerReport:
    observer = Observer(tell if task.config.http is not None else None)
    return Worker(task.config, task.log, task.group, stop=stop, until=task.until, observer=observer).run()


def _added(reports: Iterable[WorkerReport]) -> WorkerReport:
    total = WorkerReport()
    for report in reports:
        total.applied += report.applied
        total.batches += report.batches
        total.fenced += report.fenced
    return total
