"""What the tests of availability ask for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.availability.running import Lines, Refusal
from tests.fixtures.proxy import KafkaProxy, PostgresProxy


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Lines:
    """What is logged."""
    return Lines(caplog)


@pytest.fixture
def refusal(database: str) -> Iterator[Refusal]:
    """Refuses nothing until it is told to."""
    refusal = Refusal(database)
    yield refusal
    refusal.close()


@pytest.fixture
def kafka_proxy(kafka_servers: str) -> Iterator[KafkaProxy]:
    """A proxy in front of the broker, open."""
    with KafkaProxy(kafka_servers) as proxy:
        yield proxy


@pytest.fixture
def postgres_proxy(database: str) -> Iterator[PostgresProxy]:
    """A proxy in front of the test's database, open."""
    with PostgresProxy(database) as proxy:
        yield proxy
