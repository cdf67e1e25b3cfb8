"""The broker itself killed, started again, and stopped in its tracks."""

from __future__ import annotations

import signal
import time
import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from milepost.embedded import Stack
from milepost.schemas.wire import TOPIC_CONFIG
from tests.producer.conftest import Make
from tests.producer.helpers import PARTITIONS, created, read_log, steps, wait_until


@pytest.fixture(scope="module")
def own_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A broker that no other test has anything in, and that starts again quickly."""
    stack = Stack(tmp_path_factory.mktemp("broker"))
    stack.start("kafka")
    yield stack
    stack.destroy()


@pytest.fixture
def own_servers(own_stack: Stack) -> Iterator[str]:
    """Its address. Whatever a test does to the broker, the next one finds it running."""
    own_stack.start("kafka")
    yield own_stack.status().kafka_address
    if own_stack.status().kafka.running:
        own_stack.kill("kafka", signal.SIGCONT)


@pytest.fixture
def own_topic(own_servers: str) -> str:
    """A fresh topic there."""
    name = f"test.{uuid.uuid4().hex[:12]}"
    client = AdminClient({"bootstrap.servers": own_servers})
    client.create_topics([NewTopic(name, PARTITIONS, 1, config=dict(TOPIC_CONFIG))])[name].result(30)
    return name


def test_a_killed_broker_costs_nothing_and_doubles_nothing(
    make: Make, own_stack: Stack, own_servers: str, own_topic: str
) -> None:
    publisher = make(own_servers, topic=own_topic)
    for number in range(3_000):
        publisher.publish(created(number, f"s{number % 5}", size=1_000))
        if number == 1_000:
            wait_until(lambda: publisher.stats().delivered > 100)
            own_stack.kill("kafka", signal.SIGKILL)
    assert publisher.stats().failed == 0
    own_stack.start("kafka")
    assert publisher.flush(60) == 0
    records = read_log(own_servers, own_topic)
    for session in range(5):
        assert steps(records, f"t/s{session}".encode()) == list(range(session, 3_000, 5))


def test_a_stopped_broker_holds_no_publish(make: Make, own_stack: Stack, own_servers: str, own_topic: str) -> None:
    publisher = make(own_servers, topic=own_topic)
    publisher.publish(created(0)).result(15)
    own_stack.kill("kafka", signal.SIGSTOP)
    began = time.monotonic()
    for number in range(1, 1_001):
        publisher.publish(created(number))
    assert time.monotonic() - began < 2.0
    assert publisher.flush(0.5) == 1_000
    own_stack.kill("kafka", signal.SIGCONT)
    assert publisher.flush(30) == 0
    assert steps(read_log(own_servers, own_topic), b"t/s") == list(range(1_001))
