"""The broker itself killed, started again, and stopped in its tracks."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator

import pytest

from milepost.embedded import Stack
from tests.producer.conftest import Make
from tests.producer.helpers import created, read_log, steps, wait_until


@pytest.fixture(autouse=True)
def broker_again(stack: Stack) -> Iterator[None]:
    """Whatever a test does to the broker, the next one finds it running."""
    yield
    if stack.status().kafka.running:
        stack.kill("kafka", signal.SIGCONT)
    stack.start("kafka")


def test_a_killed_broker_costs_nothing_and_doubles_nothing(
    make: Make, stack: Stack, kafka_servers: str, topic: str
) -> None:
    publisher = make(kafka_servers, topic=topic)
    for number in range(3_000):
        publisher.publish(created(number, f"s{number % 5}", size=1_000))
        if number == 1_000:
            wait_until(lambda: publisher.stats().delivered > 100)
            stack.kill("kafka", signal.SIGKILL)
    assert publisher.stats().failed == 0
    stack.start("kafka")
    assert publisher.flush(60) == 0
    records = read_log(kafka_servers, topic)
    for session in range(5):
        assert steps(records, f"t/s{session}".encode()) == list(range(session, 3_000, 5))


def test_a_stopped_broker_holds_no_publish(make: Make, stack: Stack, kafka_servers: str, topic: str) -> None:
    publisher = make(kafka_servers, topic=topic)
    publisher.publish(created(0)).result(15)
    stack.kill("kafka", signal.SIGSTOP)
    began = time.monotonic()
    for number in range(1, 1_001):
        publisher.publish(created(number))
    assert time.monotonic() - began < 2.0
    assert publisher.flush(0.5) == 1_000
    stack.kill("kafka", signal.SIGCONT)
    assert publisher.flush(30) == 0
    assert steps(read_log(kafka_servers, topic), b"t/s") == list(range(1_001))
