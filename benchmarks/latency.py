"""From `publish` to readable, and what a read costs beside the same query by hand."""

from __future__ import annotations

import multiprocessing
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from multiprocessing.connection import Connection as Pipe
from typing import Any, Final

import psycopg

from benchmarks.bench import Bench, Case, Figures, Stage
from benchmarks.log import Shape, fill, remove
from benchmarks.publish import event
from benchmarks.views import MILEPOST, fresh_database, fresh_view
from milepost.consumer import CheckpointStore, reading
from milepost.producer import CheckpointPublisher
from milepost.schemas import Position

RATE: Final = 100
_CALLS: Final = 2_000
_LOOK_SECONDS: Final = 0.001
_LIMIT_SECONDS: Final = 60.0


@contextmanager
def way_cases(stage: Stage) -> Iterator[list[Case]]:
    """A consumer at work on a topic of its own."""
    topic = fill(stage.kafka, Shape(1_000))
    with fresh_view(stage, topic, 8) as (database, where), ExitStack() as stack:
        command = [MILEPOST, "consume", *where]
        consumer = stack.enter_context(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        stack.callback(consumer.terminate)
        yield [Case("publish to readable, 100 a second", partial(_way, stage, topic, database))]
    remove(stage, topic)


def _way(stage: Stage, topic: str, database: str) -> Figures:
    """Publish at the rate; another process watches the positions that the view has."""
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    watcher = multiprocessing.get_context("spawn").Process(target=_watch, args=[theirs, database], daemon=True)
    watcher.start()
    ours.recv()
    published: list[tuple[float, Position]] = []
    with CheckpointPublisher(stage.kafka, topic=topic) as publisher:
        with CheckpointStore(database) as store:  # the consumer has only just been started
            store.wait_for(publisher.publish(event(0)).result(30), 60)
        receipts = []
        due = time.perf_counter()
        for number in range(int(RATE * stage.seconds)):
            due += 1 / RATE
            time.sleep(max(due - time.perf_counter(), 0))
            receipts.append((time.perf_counter(), publisher.publish(event(number))))
        published = [(begin, receipt.result(30)) for begin, receipt in receipts]
    ours.send([(position.partition, position.offset) for _, position in published])
    seen: dict[tuple[int, int], float] = ours.recv()
    watcher.join()
    times = sorted((seen[position.partition, position.offset] - begin) * 1e3 for begin, position in published)
    return {"p50 ms": times[len(times) // 2], "p99 ms": times[len(times) * 99 // 100]}


def _watch(told: Pipe, database: str) -> None:
    """Tell when each position became readable: the clock is the whole machine's."""
    moves: list[tuple[float, int, int]] = []
    reached: dict[int, int] = {}
    wanted: list[tuple[int, int]] | None = None
    limit = time.monotonic() + _LIMIT_SECONDS
    with psycopg.connect(database, autocommit=True) as connection:
        told.send("ready")
        while wanted is None or any(reached.get(partition, 0) <= offset for partition, offset in wanted):
            if time.monotonic() > limit:
                raise RuntimeError(f"the view did not come as far within {_LIMIT_SECONDS:.0f} s")
            for partition, offset in connection.execute("select partition, next_offset from milepost.partitions"):
                if offset > reached.get(partition, -1):
                    reached[partition] = offset
                    moves.append((time.perf_counter(), partition, offset))
            if wanted is None and told.poll():
                wanted = told.recv()
            time.sleep(_LOOK_SECONDS)
    seen = {}
    for at, offset in wanted:
        seen[at, offset] = next(when for when, partition, reach in moves if partition == at and reach > offset)
    told.send(seen)


@contextmanager
def read_cases(stage: Stage) -> Iterator[list[Case]]:
    """400 sessions with 50 live checkpoints of 7.5 KB each."""
    shape = Shape(24_000, deletions=0)
    topic = fill(stage.kafka, shape)
    with fresh_database(stage.database) as database:
        where = ["--kafka", stage.kafka, "--topic", topic]
        replay = [MILEPOST, "replay", *where, "--into", database]
        subprocess.run(replay, check=True, capture_output=True)
        with CheckpointStore(database) as store, psycopg.connect(database, autocommit=True) as connection:
            yield list(_read_cases(store, connection))
    remove(stage, topic)


def _read_cases(store: CheckpointStore, connection: psycopg.Connection[Any]) -> Iterator[Case]:
    sessions = [f"session-{number:06d}" for number in range(400)]
    ids = [(name, info.checkpoint_id) for name in sessions for info in store.list("bench", name, limit=5)]

    def by_hand(read: reading.Read[Any]) -> object:
        return connection.execute(read.statement, read.parameters, prepare=True, binary=True).fetchall()

    def one(number: int) -> tuple[str, str]:
        return ids[number % len(ids)]

    def session(number: int) -> str:
        return sessions[number % len(sessions)]

    hand = "by hand: "
    yield _case(hand + "get", lambda n: by_hand(reading.get("bench", *one(n))))
    yield _case("get", lambda n: store.get("bench", *one(n)), hand + "get")
    yield _case(hand + "latest", lambda n: by_hand(reading.latest("bench", session(n))))
    yield _case("latest", lambda n: store.latest("bench", session(n)), hand + "latest")
    yield _case(hand + "list of 50", lambda n: by_hand(reading.list_session("bench", session(n), None, 0, 50, False)))
    yield _case("list of 50", lambda n: store.list("bench", session(n), limit=50), hand + "list of 50")


def _case(name: str, call: Callable[[int], object], baseline: str | None = None) -> Case:
    return Case(name, partial(_timed, call), (baseline,) if baseline is not None else ())


def _timed(call: Callable[[int], object]) -> Figures:
    times = []
    for number in range(_CALLS):
        begin = time.perf_counter_ns()
        call(number)
        times.append(time.perf_counter_ns() - begin)
    times.sort()
    return {"p50 µs": times[_CALLS // 2] / 1_000, "p99 µs": times[_CALLS * 99 // 100] / 1_000}


WAY: Final = Bench("latency", "from publish to readable, 7.5 KB", way_cases)
READS: Final = Bench("reads", "reads of the store beside the same prepared statement by hand", read_cases)
