"""Faults of a publisher and of its network: what `publish` has returned for comes into the log, and the view is right."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.chaos.process import wait_until
from tests.chaos.schedule import FAULTS, Fault
from tests.chaos.servers import Servers
from tests.chaos.strike import Strike
from tests.chaos.world import World

EVENTS = 100
PUBLISHER = [fault for fault in FAULTS if fault.target == "publisher"]


@pytest.fixture(scope="module")
def world(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(servers, tmp_path_factory.mktemp("publisher"), [1], publishers=1) as made:
        yield made


@pytest.mark.parametrize("fault", PUBLISHER, ids=str)
def test_nothing_that_was_published_is_lost_after(fault: Fault, servers: Servers, world: World) -> None:
    chosen = random.Random(str(fault))
    ((child, _),) = world.publishers
    ledger = world.folder / "ledger-0"
    before = ledger.stat().st_size if ledger.exists() else 0
    strike = Strike(fault, servers, [world], chosen)
    child.say(f"{chosen.getrandbits(48)} {EVENTS}")
    wait_until(lambda: ledger.exists() and ledger.stat().st_size > before, "the first event")
    strike.hit()
    strike.heal()
    child.say(f"{chosen.getrandbits(48)} {EVENTS}")
    world.wait_published()
    world.settle()
    records = world.log.records()
    assert strike.problems == []
    assert world.lost(records) == []
    assert world.differences(records) == []
