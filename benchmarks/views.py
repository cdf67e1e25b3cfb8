"""Databases to measure in, and consumers at work on them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import psutil
import psycopg
from psycopg import conninfo, sql

from benchmarks.bench import Figures, Stage
from milepost.consumer import migrate
from milepost.consumer.database import connect

MILEPOST: Final = str(Path(sys.executable).with_name("milepost"))
Sample = tuple[float, int, float]
"""When, how many events, and the processor time used by then."""
_LOOK_SECONDS: Final = 0.02
_LIMIT_SECONDS: Final = 900.0


@contextmanager
def fresh_database(database: str) -> Iterator[str]:
    """A new database on the same server, as a conninfo; dropped afterwards."""
    name = f"bench_{uuid4().hex[:12]}"
    with psycopg.connect(database, autocommit=True) as server:
        server.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        try:
            yield conninfo.make_conninfo(database, dbname=name)
        finally:
            server.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))
            server.execute("checkpoint")


@contextmanager
def fresh_view(stage: Stage, topic: str, partitions: int) -> Iterator[tuple[str, list[str]]]:
    """A new database that is set up for a topic, as a conninfo and as the options that name topic and database."""
    with fresh_database(stage.database) as database:
        where = ["--kafka", stage.kafka, "--topic", topic, "--database", database]
        setup = [MILEPOST, "setup", *where, "--partitions", str(partitions)]
        subprocess.run(setup, check=True, capture_output=True)
        yield database, where


def migrated(database: str) -> None:
    """Make the view's tables."""
    with connect(database) as connection:
        migrate.apply(connection)


def run(command: Sequence[str | Path], database: str, events: int, *, to_its_end: bool) -> Figures:
    """Run a command of milepost that fills a view, and tell what it did, from its first batch to its last, or to its end.

    The processor time is that of all its processes in that time, the memory that of the largest of them, ever.
    """
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        samples, ended = _watch(process, database)
    finally:
        # not by Popen, whose every look would reap it, and lose the usage
        os.kill(process.pid, signal.SIGKILL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    errors = process.stderr.read().decode() if process.stderr is not None else ""
    if not samples or samples[-1][1] < events:
        raise RuntimeError(f"expected {events} events in the view, found {samples[-1:]}: {errors[-2_000:]}")
    if len(samples) < 3:  # too short to be seen at work: its start is a part of it
        samples.insert(0, (started, 0, 0.0))
    (begin, first, idle), (end, last, _) = samples[0], samples[-1]
    # a process that has just ended tells nothing
    busy = max(sample[2] for sample in samples)
    early, late = _rate(samples, 0.0, 0.25), _rate(samples, 0.75, 1.0)
    return {
        "events/s": (last - first) / ((ended if to_its_end else end) - begin),
        "last quarter / first": late / max(early, 1.0),
        "client CPU µs": (busy - idle) / max(last - first, 1) * 1e6,
        "memory MB": usage.ru_maxrss / 1024,
    }


def _rate(samples: list[Sample], begin: float, end: float) -> float:
    """Events a second between two shares of all events."""
    first, last = samples[0][1], samples[-1][1]
    (start, low, _), (stop, high, _) = (
        min(samples, key=lambda sample: abs(sample[1] - first - share * (last - first))) for share in (begin, end)
    )
    return (high - low) / max(stop - start, _LOOK_SECONDS)


def _watch(process: subprocess.Popen[bytes], database: str) -> tuple[list[Sample], float]:
    """A sample each time there are more events, and when the process ended."""
    samples: list[Sample] = []
    limit = time.monotonic() + _LIMIT_SECONDS
    with psycopg.connect(database, autocommit=True) as connection:
        while time.monotonic() < limit:
            # wait4 is to have the last word, for it tells the usage
            ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
            count = _events(connection)
            if count and (not samples or count > samples[-1][1]):
                samples.append((time.perf_counter(), count, _busy(process.pid)))
            if ended:
                return samples, time.perf_counter()
            time.sleep(_LOOK_SECONDS)
    raise RuntimeError(f"not at its end after {_LIMIT_SECONDS:.0f} s")


def _events(connection: psycopg.Connection[Any]) -> int:
    try:
        row = connection.execute("select coalesce(sum(events), 0)::int8 from milepost.partitions").fetchone()
    except psycopg.errors.UndefinedTable:
        return 0
    return int(row[0]) if row is not None else 0


def _busy(pid: int) -> float:
    """Seconds of processor time that a process and its children have used."""
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        times = [each.cpu_times() for each in (process, *process.children(recursive=True))]
        return float(sum(each.user + each.system for each in times))
    return 0.0
