"""Publishers that are closed at the end, and Kafka behind a proxy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from milepost.producer import CheckpointPublisher
from tests.fixtures.proxy import KafkaProxy

Make = Callable[..., CheckpointPublisher]


@pytest.fixture
def make() -> Iterator[Make]:
    """Makes publishers as `CheckpointPublisher` does; all are closed at the end."""
    made: list[CheckpointPublisher] = []

    def build(servers: str, **options: Any) -> CheckpointPublisher:
        made.append(CheckpointPublisher(servers, **options))
        return made[-1]

    yield build
    for publisher in made:
        publisher.close(0)


@pytest.fixture
def proxy(kafka_servers: str) -> Iterator[KafkaProxy]:
    """A proxy in front of the broker, open."""
    with KafkaProxy(kafka_servers) as proxy:
        yield proxy
