"""How fast a view is filled, live and by replay, beside the fastest reading and the fastest writing that we know.

One log for all. Each view is new; the machine's processors are shared by broker, Postgres and consumers.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks import yardsticks
from benchmarks.bench import Bench, Case, Figures, Stage
from benchmarks.log import Shape, fill, remove
from benchmarks.views import MILEPOST, fresh_database, fresh_view, migrated, run

_CHILD_SECONDS: Final = 600.0
_context = multiprocessing.get_context("spawn")


@contextmanager
def log(stage: Stage, shape: Shape) -> Iterator[str]:
    """A topic of that shape, for as long as the context is open."""
    topic = fill(stage.kafka, shape)
    yardstick(
        yardsticks.read, stage.kafka, topic, shape.partitions, shape.events, yardsticks.untouched
    )  # warms the cache
    yield topic
    remove(stage, topic)


def consume(
    stage: Stage,
    topic: str,
    shape: Shape,
    processes: int = 1,
    *,
    options: Sequence[str] = (),
    sizes: bool = False,
    program: Sequence[str | Path] = (MILEPOST,),
) -> Figures:
    """Fill a new view by `milepost consume`, or by a program that does the same."""
    with fresh_view(stage, topic, shape.partitions) as (database, where):
        command = [*program, "consume", *where, "--processes", str(processes), "--until-caught-up", *options]
        return run(command, database, shape.events, to_its_end=False, sizes=sizes)


def replay(stage: Stage, topic: str, shape: Shape, processes: int) -> Figures:
    """Fill a new view by `milepost replay`; writing what was held back is a part of it."""
    with fresh_database(stage.database) as database:
        command = [
            MILEPOST,
            "replay",
            "--kafka",
            stage.kafka,
            "--topic",
            topic,
            "--into",
            database,
            "--processes",
            str(processes),
        ]
        return run(command, database, shape.events, to_its_end=True)


def copy(stage: Stage, shape: Shape, processes: int) -> Figures:
    """Fill a new table by binary COPY, and do nothing else."""
    events = max(shape.events // 4 // processes, 1)
    with fresh_database(stage.database) as database:
        migrated(database)
        running = [_start(yardsticks.copy, database, number, events, shape.size) for number in range(processes)]
        for _, ours in running:
            _hear(ours)
        for _, ours in running:
            ours.send("go")
        times = [_hear(ours) for _, ours in running]
        for process, _ in running:
            process.join()
    seconds = max(end for _, end, _ in times) - min(begin for begin, _, _ in times)
    total = events * processes
    return {"events/s": total / seconds, "client CPU µs": sum(busy for _, _, busy in times) / total * 1e6}


def yardstick(target: Callable[..., None], *arguments: object) -> Figures:
    """Run a yardstick in a process of its own."""
    process, ours = _start(target, *arguments)
    figures: Figures = _hear(ours)
    process.join()
    return figures


def _start(target: Callable[..., None], *arguments: object) -> tuple[Any, Any]:
    ours, theirs = _context.Pipe()
    process = _context.Process(target=target, args=(theirs, *arguments), daemon=True)
    process.start()
    theirs.close()
    return process, ours


def _hear(pipe: Any) -> Any:
    if not pipe.poll(_CHILD_SECONDS):
        raise RuntimeError(f"a yardstick said nothing for {_CHILD_SECONDS:.0f} s")
    return pipe.recv()


def _cases(stage: Stage, topic: str, shape: Shape) -> Sequence[Case]:
    reads = [stage.kafka, topic, shape.partitions, shape.events]
    one, two = partial(consume, stage, topic, shape, 1), partial(consume, stage, topic, shape, 2)
    return [
        Case("read, 1 process", partial(yardstick, yardsticks.read, *reads, yardsticks.untouched)),
        Case("checking read, 1 process", partial(yardstick, yardsticks.read, *reads, yardsticks.checked)),
        Case("copy, 1 process", partial(copy, stage, shape, 1)),
        Case("copy, 2 processes", partial(copy, stage, shape, 2)),
        Case("live, 1 process", one, ("copy, 1 process",)),
        Case("live, 2 processes", two, ("copy, 1 process", "copy, 2 processes")),
        Case(
            "replay, 1 process",
            partial(replay, stage, topic, shape, 1),
            ("checking read, 1 process", "read, 1 process", "live, 1 process"),
        ),
        Case(
            "replay, 2 processes",
            partial(replay, stage, topic, shape, 2),
            ("checking read, 1 process", "read, 1 process", "live, 2 processes"),
        ),
    ]


@contextmanager
def cases(stage: Stage, shape: Shape | None = None) -> Iterator[list[Case]]:
    """All cases on one log."""
    shape = shape or Shape(stage.events)
    with log(stage, shape) as topic:
        yield list(_cases(stage, topic, shape))


BENCH: Final = Bench("live", "filling a view of 7.5 KB states, 400 sessions, log uncompressed", cases)
