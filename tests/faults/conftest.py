"""Servers of our own for the fault tests, since they are killed, and a world for each situation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.chaos.servers import Servers
from tests.chaos.traffic import checkpoint
from tests.chaos.world import ONE_EACH, World


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """A Kafka and a Postgres that may be killed."""
    with Servers(tmp_path_factory.mktemp("servers")) as made:
        yield made


@pytest.fixture(scope="module")
def worlds(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, World]]:
    """Two worlds of two consumers, so that a fault strikes in both at once."""
    with ExitStack() as stack:
        folder = tmp_path_factory.mktemp("worlds")
        made = {each: stack.enter_context(World(servers, folder, [1, 1], newest=60)) for each in ("batch", "rebalance")}
        for world in made.values():
            world.wait_ready()
            # sessions as long as the policy allows
            world.publish(checkpoint("acme", session_id, number) for number in range(60) for session_id in ONE_EACH)
        yield made
