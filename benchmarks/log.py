"""A log to measure with: filled once, as fast as librdkafka takes it, by milepost's own codec."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Final
from uuid import UUID, uuid4

import msgspec
from confluent_kafka import Producer
from uuid6 import uuid7

from benchmarks.bench import Stage
from benchmarks.states import States
from milepost.consumer import kafka
from milepost.consumer.log import create_topic
from milepost.producer.config import DEFAULTS
from milepost.schemas import CheckpointCreated, Event, SessionDeleted, encode

DELETIONS: Final = 0.0005
_RUN: Final = UUID("01890000-0000-7000-8000-000000000001")


Headers = list[tuple[str, str | bytes | None]]


class Shape(msgspec.Struct, frozen=True):
    """What a log holds."""

    events: int
    size: int = 7_500
    """Bytes of a state, about."""
    sessions: int = 400
    partitions: int = 8
    codec: str = "none"
    deletions: float = DELETIONS
    """The share of events that delete their session."""


def fill(servers: str, shape: Shape, progress: Callable[[int], None] = lambda _done: None) -> str:
    """Make a topic of its own and fill it; gives its name. Sessions take turns; who deletes which is random, but fixed."""
    topic = f"bench.{uuid4().hex[:12]}"
    create_topic(kafka.admin(servers), servers, topic, shape.partitions, 1)
    producer = Producer({**DEFAULTS, "bootstrap.servers": servers, "compression.type": shape.codec})
    publisher = str(uuid7())
    for number, event in enumerate(_events(shape), 1):
        record = encode(event, source="/runtimes/bench")
        headers: Headers = [*record.headers, ("ce_publisherid", publisher), ("ce_publisherseq", str(number))]
        _produce(producer, topic, record.key, record.value, headers)
        if number % 2_000 == 0:
            progress(number)
    if left := producer.flush(60):
        raise RuntimeError(f"{left} events did not reach {topic}")
    return topic


def remove(stage: Stage, topic: str) -> None:
    """Remove a topic."""
    client = kafka.admin(stage.kafka)  # one that is not kept fails its calls
    kafka.only(client.delete_topics([topic]))


def _events(shape: Shape) -> Iterator[Event]:
    states, chance = States(shape.size), random.Random(shape.events)  # noqa: S311 - the same log every time
    for number in range(shape.events):
        step, session = divmod(number, shape.sessions)
        name = f"session-{session:06d}"
        if chance.random() < shape.deletions:
            yield SessionDeleted(tenant_id="bench", session_id=name, reason="bench")
        else:
            state = states.state(session, step)
            yield CheckpointCreated(
                tenant_id="bench",
                session_id=name,
                state=state,
                step=step,
                run_id=_RUN,
                next_node="writer",
                framework_version="1.9.0",
                labels={"workflow": "sequential"},
            )


def _produce(producer: Producer, topic: str, key: bytes, value: bytes | None, headers: Headers) -> None:
    while True:
        try:
            producer.produce(topic, value, key, headers=headers)
        except BufferError:
            producer.poll(0.05)
        else:
            producer.poll(0)
            return
