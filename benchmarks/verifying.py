"""How fast `milepost audit verify` goes over a view and its log, beside reading the same and looking at nothing."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from multiprocessing.connection import Connection as Pipe
from typing import Final

import msgspec
import psycopg
from psycopg import sql

from benchmarks import yardsticks
from benchmarks.bench import Bench, Case, Figures, Stage
from benchmarks.log import Shape
from benchmarks.throughput import log, yardstick
from benchmarks.views import MILEPOST, fresh_database

_TABLES: Final = ("sessions", "checkpoints", "history", "publishers")


class _Report(msgspec.Struct):
    """What of verify's report is wanted here."""

    verified: bool
    seconds: float


@contextmanager
def cases(stage: Stage) -> Iterator[list[Case]]:
    """A view whose states are live to a tenth, as in the other benchmarks, and one where half of them are."""
    with ExitStack() as stack:
        yield [
            case
            for name, shape in (("", Shape(stage.events)), ("half live: ", Shape(max(stage.events // 5, 1_000))))
            for case in _cases(stage, name, shape, stack)
        ]


def _cases(stage: Stage, name: str, shape: Shape, stack: ExitStack) -> list[Case]:
    topic = stack.enter_context(log(stage, shape))
    database = stack.enter_context(fresh_database(stage.database))
    where = ["--kafka", stage.kafka, "--topic", topic]
    subprocess.run([MILEPOST, "replay", *where, "--into", database], check=True, capture_output=True)
    tables, both = f"{name}read of the tables", f"{name}read of tables and log"
    return [
        Case(tables, partial(_tables, database, shape)),
        Case(both, partial(_tables_and_log, stage, database, topic, shape)),
        Case(f"{name}verify", partial(_verify, database, shape), (tables,)),
        Case(f"{name}verify against the log", partial(_verify, database, shape, "--against-log", *where), (both,)),
    ]


def _tables(database: str, shape: Shape) -> Figures:
    return yardstick(read_tables, database, shape.events)


def _tables_and_log(stage: Stage, database: str, topic: str, shape: Shape) -> Figures:
    """One after the other, as verify does."""
    reads = [stage.kafka, topic, shape.partitions, shape.events, yardsticks.untouched]
    rates = [_tables(database, shape)["events/s"], yardstick(yardsticks.read, *reads)["events/s"]]
    return {"events/s": 1 / sum(1 / rate for rate in rates)}


def read_tables(told: Pipe, database: str, events: int) -> None:
    """Tell the rate, in events of the log, at which all rows of the view are read."""
    with psycopg.connect(database) as connection, connection.cursor() as cursor:
        begin = time.perf_counter()
        for table in _TABLES:
            with cursor.copy(
                sql.SQL("copy milepost.{} to stdout (format binary)").format(sql.Identifier(table))
            ) as copy:
                for _ in copy:
                    pass
        told.send({"events/s": events / (time.perf_counter() - begin)})


def _verify(database: str, shape: Shape, *options: str) -> Figures:
    command = [MILEPOST, "audit", "verify", "--database", database, "--json", *options]
    done = subprocess.run(command, check=True, capture_output=True)
    report = msgspec.json.decode(done.stdout, type=_Report)
    if not report.verified:
        raise RuntimeError(f"expected a view that verifies, found: {done.stdout.decode()}")
    return {"events/s": shape.events / report.seconds}


BENCH: Final = Bench("verify", "audit verify beside reading what it reads, 7.5 KB", cases)
