"""The fault matrix: each fault strikes in two worlds at once, in the middle of a COMMIT.

`batch` has plain events, deletions, bad and refused records under way in one batch, under a policy that was just lowered; in
`rebalance` a guest joins the group. Afterwards the view of each world, a fresh replay of its log and the model must say the same.
"""

from __future__ import annotations

import random

from tests.chaos import situations
from tests.chaos.schedule import FAULTS, Fault, Target
from tests.chaos.servers import Servers
from tests.chaos.strike import Strike
from tests.chaos.traffic import checkpoint
from tests.chaos.world import ONE_EACH, Guest, World

REACHED_SECONDS = 20.0


def faults_of(*targets: Target) -> list[Fault]:
    """All that can be done to these."""
    return [fault for fault in FAULTS if fault.target in targets]


def strike_both(fault: Fault, servers: Servers, worlds: dict[str, World]) -> None:
    """One fault in both worlds, healing, and the checker. Raises AssertionError with what does not agree."""
    chosen = random.Random(str(fault))
    strike = Strike(fault, servers, list(worlds.values()), chosen)
    strike.arm()
    situations.begin_together(("steady", "deletion", "quarantine", "retention"), worlds["batch"], chosen)
    situations.begin("rebalance", worlds["rebalance"], chosen)
    assert strike.wait(REACHED_SECONDS), f"expected a COMMIT in each world within {REACHED_SECONDS:g} s"
    guest = Guest(worlds["rebalance"])
    strike.hit()
    strike.heal()
    guest.leave()
    for world in worlds.values():
        # the view goes on afterwards, too
        world.publish(checkpoint("acme", session_id) for session_id in ONE_EACH)
    for world in worlds.values():
        world.settle()
    assert strike.problems == []
    assert {name: found for name, world in worlds.items() if (found := world.differences())} == {}
