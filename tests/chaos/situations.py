"""What is going on in a world while a fault strikes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Final

from milepost.schemas import SessionDeleted
from tests.chaos.schedule import Situation
from tests.chaos.traffic import REFUSED, bad_records, checkpoint
from tests.chaos.world import ONE_EACH, Guest, World


def begin(situation: Situation, world: World, chosen: random.Random) -> None:
    """Bring it about, in every partition."""
    _SITUATIONS[situation](world, chosen)


def begin_together(some: Iterable[Situation], world: World, chosen: random.Random) -> None:
    """Bring several about at once: consumers see nothing before everything is in the log, so that one batch has it all."""
    for consumer in world.consumers:
        consumer.kafka.stall()
    for each in some:
        begin(each, world, chosen)
    for consumer in world.consumers:
        consumer.kafka.resume()


def disturb(situation: Situation, world: World) -> Guest | None:
    """What comes while a COMMIT is held up: to a rebalance a guest, who has to be sent away again."""
    return Guest(world) if situation == "rebalance" else None


def _steady(world: World, chosen: random.Random) -> None:
    world.publish(checkpoint("acme", session_id, chosen.randrange(100)) for session_id in ONE_EACH * 2)


def _retention(world: World, chosen: random.Random) -> None:
    """The sessions are as long as the policy allows, so both the new events and the lowered policy remove states."""
    _steady(world, chosen)
    world.lower_policy()


def _deletion(world: World, chosen: random.Random) -> None:
    for _ in range(2):
        _steady(world, chosen)
        world.publish(SessionDeleted(tenant_id="acme", session_id=session_id) for session_id in ONE_EACH)
    _steady(world, chosen)


def _quarantine(world: World, chosen: random.Random) -> None:
    """Records that are no events, and records that Postgres refuses until they are retried."""
    world.publish_raw(bad_records(chosen, 6))
    world.publish(checkpoint("acme", f"{REFUSED}-{chosen.getrandbits(64):x}") for _ in range(6))
    _steady(world, chosen)


_SITUATIONS: Final[dict[Situation, Callable[[World, random.Random], None]]] = {
    "steady": _steady,
    "rebalance": _steady,
    "retention": _retention,
    "deletion": _deletion,
    "quarantine": _quarantine,
}
