"""What changes with the size of states and with the codec, over a long log, with huge states, and as a view grows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Final

import psycopg

from benchmarks import yardsticks
from benchmarks.bench import Bench, Case, Figures, Stage
from benchmarks.log import Shape
from benchmarks.throughput import consume, log, replay, yardstick
from benchmarks.views import MILEPOST, fresh_view, run
from milepost.consumer import CheckpointStore, queries
from milepost.consumer.materializer import become_writer

SUSTAINED_EVENTS: Final = 1_300_000
_SESSIONS: Final = (10_000, 100_000, 1_000_000)
_CALLS: Final = 500
_HUGE: Final = Shape(120, size=16 * 1024 * 1024 - 4_096, sessions=7, codec="zstd", deletions=0)


@contextmanager
def size_cases(stage: Stage) -> Iterator[list[Case]]:
    """The same work on logs of other shapes."""
    shapes = {
        "1 KB": Shape(stage.events // 2, size=1_000),
        "7.5 KB, zstd": Shape(stage.events // 2, codec="zstd"),
        "64 KB": Shape(max(stage.events // 16, 1_000), size=64_000),
    }
    with ExitStack() as stack:
        made = []
        for name, shape in shapes.items():
            topic = stack.enter_context(log(stage, shape))
            reads = [stage.kafka, topic, shape.partitions, shape.events, yardsticks.checked]
            checking = f"{name}: checking read"
            made.append(Case(checking, partial(yardstick, yardsticks.read, *reads)))
            for number in (1, 2):
                live = partial(consume, stage, topic, shape, number)
                made.append(Case(f"{name}: live, {number} processes", live, (checking,)))
                again = partial(replay, stage, topic, shape, number)
                made.append(Case(f"{name}: replay, {number} processes", again, (checking,)))
        yield made


@contextmanager
def sustained_cases(stage: Stage) -> Iterator[list[Case]]:
    """1.3 million events of 7.5 KB, 10 GB, in 2,000 sessions; fewer when the stage says so."""
    shape = Shape(SUSTAINED_EVENTS if stage.events >= 200_000 else stage.events, sessions=2_000)
    with log(stage, shape) as topic:
        yield [
            Case("live, 1 process", partial(consume, stage, topic, shape, 1, sizes=True)),
            Case("replay, 2 processes", partial(replay, stage, topic, shape, 2)),
        ]


@contextmanager
def huge_cases(stage: Stage) -> Iterator[list[Case]]:
    """States of nearly 16 MiB, packed by zstd: how much memory a process has at most."""
    with log(stage, _HUGE) as topic:
        yield [
            Case("live, 1 process", partial(consume, stage, topic, _HUGE, 1)),
            Case("replay, 1 process", partial(replay, stage, topic, _HUGE, 1)),
        ]


@contextmanager
def growth_cases(stage: Stage) -> Iterator[list[Case]]:
    """Views of ever more sessions, states of 1 KB."""
    shrink = max(200_000 // stage.events, 1)
    with ExitStack() as stack:
        made = []
        for number in _SESSIONS:
            sessions = number // shrink
            shape = Shape(max(sessions, 100_000 // shrink), size=1_000, sessions=sessions)
            topic = stack.enter_context(log(stage, shape))
            made.append(Case(f"{sessions:,} sessions", partial(_grown, stage, topic, shape)))
        yield made


def _grown(stage: Stage, topic: str, shape: Shape) -> Figures:
    with fresh_view(stage, topic, shape.partitions) as (database, where):
        figures = run([MILEPOST, "consume", *where, "--until-caught-up"], database, shape.events, to_its_end=False)
        with psycopg.connect(database, autocommit=True) as connection:
            figures |= _sizes(connection)
            figures["prunes by index"] = float(_prunes_by_index(connection))
        with CheckpointStore(database) as store:
            figures |= _reads(store, shape.sessions)
    return figures


def _sizes(connection: psycopg.Connection[Any]) -> Figures:
    connection.execute("vacuum analyze")
    rows = connection.execute(
        "select relname, pg_table_size(oid), pg_indexes_size(oid) from pg_class"
        " where relnamespace = 'milepost'::regnamespace and relname = any(%s)",
        [["sessions", "checkpoints", "history"]],
    )
    return {
        f"{name} {part} MB": size / 1e6
        for name, *both in rows
        for part, size in zip(("table", "index"), both, strict=True)
    }


def _prunes_by_index(connection: psycopg.Connection[Any]) -> bool:
    """Whether the statement that prunes finds its rows by session and seq, with the consumer's own settings."""
    become_writer(connection)
    arguments = [["bench"], ["session-000001"], [0], [1], [False]]
    rows = connection.execute("explain " + queries.load("materialize")["remove_checkpoints"], arguments)
    return any("Index Scan using checkpoints_pkey" in row[0] for row in rows)


def _reads(store: CheckpointStore, sessions: int) -> Figures:
    def name(call: int) -> str:
        return f"session-{call * 7_919 % sessions:06d}"

    ids = {call: store.list("bench", name(call), limit=1)[0].checkpoint_id for call in range(_CALLS)}
    return {
        "get ms": _median(lambda call: store.get("bench", name(call), ids[call])),
        "latest ms": _median(lambda call: store.latest("bench", name(call))),
        "list of 50 ms": _median(lambda call: store.list("bench", name(call), limit=50)),
    }


def _median(call: Callable[[int], object]) -> float:
    times = []
    for number in range(_CALLS):
        begin = time.perf_counter()
        call(number)
        times.append(time.perf_counter() - begin)
    return sorted(times)[_CALLS // 2] * 1e3


SIZES: Final = Bench("sizes", "small and large states, and a packed log", size_cases)
SUSTAINED: Final = Bench("sustained", "a long log: 7.5 KB, 2,000 sessions", sustained_cases, most_rounds=1)
HUGE: Final = Bench("huge", "states of 16 MiB, dull and packed by zstd", huge_cases, most_rounds=1)
GROWTH: Final = Bench("growth", "views of ever more sessions, 1 KB", growth_cases, most_rounds=1)
