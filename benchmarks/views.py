"""Databases to measure in, and consumers at work on them."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import uuid4

import psutil
import psycopg
from psycopg import conninfo, sql

from benchmarks.bench import Figures, Stage
from milepost.consumer import migrate
from milepost.consumer.database import connect

MILEPOST: Final = str(Path(sys.executable).with_name("milepost"))


class Sample(NamedTuple):
    """How far a view was at one moment."""

    when: float
    events: int
    busy: float
    """Processor time used by then, seconds."""
    memory: float
    """The most that one of the processes has had resident by then, MB."""
    size: int
    """Bytes of the table of checkpoints with its indexes, dead rows too."""


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


def run(command: Sequence[str | Path], database: str, events: int, *, to_its_end: bool, sizes: bool = False) -> Figures:
    """Run a command of milepost that fills a view, and tell what it did, from its first batch to its last, or to its end.

    The processor time is that of all its processes in that time, the memory that of the largest of them, ever; with `sizes`
    how much the live checkpoints take with the dead ones among them, at the end and beside half the way.
    """
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        samples, ended = _watch(process, database)
    finally:
        process.kill()
        process.wait()
    errors = process.stderr.read().decode() if process.stderr is not None else ""
    if not samples or samples[-1].events < events:
        raise RuntimeError(f"expected {events} events in the view, found {samples[-1:]}: {errors[-2_000:]}")
    if len(samples) < 3:  # too short to be seen at work: its start is a part of it
        samples.insert(0, Sample(started, 0, 0.0, 0.0, 0))
    first, last = samples[0], samples[-1]
    done = max(last.events - first.events, 1)
    # a process that has just ended tells nothing
    busy = max(sample.busy for sample in samples)
    early, late = _rate(samples, 0.0, 0.25), _rate(samples, 0.75, 1.0)
    figures = {
        "events/s": done / ((ended if to_its_end else last.when) - first.when),
        "last quarter / first": late / max(early, 1.0),
        "client CPU µs": (busy - first.busy) / done * 1e6,
        "memory MB": max(sample.memory for sample in samples),
    }
    if sizes:
        figures["checkpoints MB"] = last.size / 1e6
        figures["checkpoints MB, end / half"] = last.size / max(_at(samples, 0.5).size, 1)
    return figures


def _at(samples: list[Sample], share: float) -> Sample:
    """The sample nearest to a share of all events."""
    wanted = samples[0].events + share * (samples[-1].events - samples[0].events)
    return min(samples, key=lambda sample: abs(sample.events - wanted))


def _rate(samples: list[Sample], begin: float, end: float) -> float:
    """Events a second between two shares of all events."""
    early, late = _at(samples, begin), _at(samples, end)
    return (late.events - early.events) / max(late.when - early.when, _LOOK_SECONDS)


def _watch(process: subprocess.Popen[bytes], database: str) -> tuple[list[Sample], float]:
    """A sample each time there are more events, and when the process ended."""
    samples: list[Sample] = []
    limit = time.monotonic() + _LIMIT_SECONDS
    with psycopg.connect(database, autocommit=True) as connection:
        while time.monotonic() < limit:
            ended = process.poll() is not None
            count, size = _stands(connection)
            if count and (not samples or count > samples[-1].events):
                samples.append(Sample(time.perf_counter(), count, *_used(process.pid), size))
            if ended:
                return samples, time.perf_counter()
            time.sleep(_LOOK_SECONDS)
    raise RuntimeError(f"not at its end after {_LIMIT_SECONDS:.0f} s")


def _stands(connection: psycopg.Connection[Any]) -> tuple[int, int]:
    """Events in the view, and the bytes of its checkpoints."""
    try:
        row = connection.execute(
            "select coalesce(sum(events), 0)::int8, pg_total_relation_size('milepost.checkpoints') from milepost.partitions"
        ).fetchone()
    except psycopg.errors.UndefinedTable:
        return 0, 0
    return (int(row[0]), int(row[1])) if row is not None else (0, 0)


def _used(pid: int) -> tuple[float, float]:
    """Seconds of processor time that a process and its children have used, and the most that one of them has had resident, MB."""
    busy = memory = 0.0
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        for each in (process, *process.children(recursive=True)):
            times = each.cpu_times()
            busy += times.user + times.system
            memory = max(memory, _peak(each.pid) or each.memory_info().rss / 1e6)
    return busy, memory


def _peak(pid: int) -> float:
    """What Linux remembers of it. Not by wait4, which counts what the process was before it became the program."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1_024 / 1e6
    return 0.0
