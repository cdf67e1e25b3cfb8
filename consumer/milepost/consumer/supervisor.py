"""`milepost consume`: checks that everything fits, then runs one worker here or several as processes of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing

import msgspec

from milepost.consumer import kafka, queries
from milepost.consumer.config import ConsumeConfig
from milepost.consumer.database import connect, scalar, translated
from milepost.consumer.log import LogIdentity, check_topic, ends
from milepost.consumer.migrate import require_current
from milepost.consumer.processes import Pool, Stop
from milepost.consumer.replay.plan import require_whole
from milepost.consumer.watch import require
from milepost.consumer.worker import Worker, WorkerReport


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
    for a server that is away.
    """
    # before anything else: a signal that comes early must end it well, too
    stop = stop or Stop()
    task = prepare(config, until_caught_up=until_caught_up)
    if processes == 1:
        return _work(task, stop, lambda _news: None)
    return _added(Pool(_work, [task] * processes, stop, lambda _number, _news: None).run())


def prepare(config: ConsumeConfig, *, until_caught_up: bool) -> Task:
    """Check the log and the view against each other."""
    client = kafka.admin(config.kafka)
    with closing(connect(config.database)) as connection, translated(config.database):
        require_current(connection)
        require_whole(connection)
        log = require(client, config.kafka, connection, config.topic)
        view_id = scalar(connection, queries.load("materialize")["view_id"])
    check_topic(client, config.kafka, config.topic)
    until = ends(client, config.kafka, log) if until_caught_up else None
    return Task(config, log, f"milepost-{view_id}", until)


def _work(task: Task, stop: Stop, _tell: Callable[[object], None]) -> WorkerReport:
    return Worker(task.config, task.log, task.group, stop=stop, until=task.until).run()


def _added(reports: Iterable[WorkerReport]) -> WorkerReport:
    total = WorkerReport()
    for report in reports:
        total.applied += report.applied
        total.batches += report.batches
        total.fenced += report.fenced
    return total
