"""How long `publish` keeps its caller: beside a bare `produce` with the same headers, in each state that Kafka can be in.

A runtime at work is played: 500 events of 7.5 KB a second, each timed alone. Only the call is timed, not the making of
the event; for the bare producer the record is made before, headers and all.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import count
from multiprocessing.connection import Connection
from typing import Final, NamedTuple, TypeVar
from uuid import uuid4

from confluent_kafka import Producer

from benchmarks.bench import Bench, Case, Figures, Stage
from milepost.consumer import kafka
from milepost.consumer.log import create_topic
from milepost.producer import CheckpointPublisher
from milepost.producer.config import DEFAULTS
from milepost.schemas import CheckpointCreated, encode
from tests.fixtures.proxy import KafkaProxy

RATE: Final = 500
STATE: Final = b'{"messages": ["' + b"word " * 1_493 + b'"], "n": "%09d"}'
WARM_UP: Final = 50
Item = TypeVar("Item")
_STATES: Final = ("up", "refused", "silent", "stalled")


class Place(NamedTuple):
    """Where Kafka is, or is not."""

    servers: str
    freeze: Callable[[], None]
    """Called once there is a connection."""
    thaw: Callable[[], None]


def event(number: int) -> CheckpointCreated:
    """An event of 7.5 KB; 400 sessions take turns."""
    return CheckpointCreated(tenant_id="bench", session_id=f"s{number % 400}", state=STATE % number, step=number)


@contextmanager
def cases(stage: Stage) -> Iterator[list[Case]]:
    """Bare, publish, publish with a spool; for each state of Kafka."""
    topic = f"bench.{uuid4().hex[:12]}"
    admin = kafka.admin(stage.kafka)
    create_topic(admin, stage.kafka, topic, 12, 1)
    with ExitStack() as stack:
        places = {
            "up": Place(stage.kafka, _nothing, _nothing),
            "refused": Place("127.0.0.1:1", _nothing, _nothing),
            "silent": Place(stack.enter_context(_silent()), _nothing, _nothing),
            "stalled": stack.enter_context(_stalled(stage.kafka)),
        }
        made = []
        for state in _STATES:
            place = places[state]
            bare = f"bare produce, {state}"
            made.append(Case(bare, partial(_bare, stage, topic, place)))
            for name, spool in (("publish", False), ("publish with spool", True)):
                run = partial(_publish, stage, topic, place, spool)
                made.append(Case(f"{name}, {state}", run, (f"{name}, up" if state != "up" else bare,)))
        yield made
    admin.delete_topics([topic])


def _publish(stage: Stage, topic: str, place: Place, spool: bool) -> Figures:
    folder = stage.folder / uuid4().hex
    publisher = CheckpointPublisher(place.servers, topic=topic, spool=folder if spool else None)
    try:
        if place.servers == stage.kafka or place.freeze is not _nothing:
            publisher.publish(event(0)).result(30)
        place.freeze()
        return _timed(stage, event, publisher.publish)
    finally:
        place.thaw()
        publisher.close(0.1)
        shutil.rmtree(folder, ignore_errors=True)


def _bare(stage: Stage, topic: str, place: Place) -> Figures:
    producer = Producer({**DEFAULTS, "bootstrap.servers": place.servers, "log_level": 0})
    stopped = threading.Event()
    poller = threading.Thread(target=_poll, args=[producer, stopped])
    publisher_id = str(uuid4())
    numbers = count(1)

    def make(number: int) -> dict[str, object]:
        record = encode(event(number), source="/runtimes/unnamed")
        headers = [*record.headers, ("ce_publisherid", publisher_id), ("ce_publisherseq", str(next(numbers)))]
        return {"value": record.value, "key": record.key, "headers": headers}

    def produce(record: dict[str, object]) -> None:
        producer.produce(topic, on_delivery=_reported, **record)  # type: ignore[arg-type]

    poller.start()
    try:
        if place.servers == stage.kafka or place.freeze is not _nothing:
            produce(make(0))
            producer.flush(30)
        place.freeze()
        return _timed(stage, make, produce)
    finally:
        place.thaw()
        stopped.set()
        poller.join()
        producer.purge()


def _timed(stage: Stage, make: Callable[[int], Item], take: Callable[[Item], object]) -> Figures:
    """Give items at the rate, and time each taking."""
    times = []
    due = time.perf_counter()
    for number in range(int(RATE * stage.seconds) + WARM_UP):
        item = make(number)
        due += 1 / RATE
        if (left := due - time.perf_counter()) > 0:
            time.sleep(left)
        begin = time.perf_counter_ns()
        take(item)
        times.append(time.perf_counter_ns() - begin)
    times = sorted(times[WARM_UP:])
    return {"p50 µs": times[len(times) // 2] / 1_000, "p99 µs": times[len(times) * 99 // 100] / 1_000}


def _poll(producer: Producer, stopped: threading.Event) -> None:
    while not stopped.is_set():
        producer.poll(0.1)


def _reported(*_: object) -> None:
    """What every producer that wants to know of losses has."""


def _nothing() -> None:
    pass


@contextmanager
def _silent() -> Iterator[str]:
    """An address where connections are taken and nobody ever answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@contextmanager
def _stalled(servers: str) -> Iterator[Place]:
    """Kafka behind a process that can be stopped and continued: to a client it is the broker that hangs."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_relay, args=[servers, theirs], daemon=True)
    process.start()
    pid = process.pid
    if pid is None:
        raise RuntimeError("the relay did not start")
    try:
        yield Place(ours.recv(), partial(os.kill, pid, signal.SIGSTOP), partial(os.kill, pid, signal.SIGCONT))
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        process.join()


def _relay(servers: str, told: Connection) -> None:
    with KafkaProxy(servers) as proxy:
        told.send(proxy.servers)
        threading.Event().wait()


BENCH: Final = Bench("publish", "what one call costs, 7.5 KB at 500 a second", cases)
