"""What happens when: drawn from a seed, so that the same seed gives the same rounds."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

import msgspec

Target = Literal["consumers", "consumer", "broker", "postgres", "kafka-network", "postgres-network", "publisher"]
"""`consumers` are all there are, `consumer` is one of several; a network is that of one of several, too."""
Kind = Literal["kill", "stop", "term", "before-commit", "after-commit", "slow", "refused"]
Situation = Literal["steady", "rebalance", "retention", "deletion", "quarantine"]
SITUATIONS: Final[tuple[Situation, ...]] = ("steady", "rebalance", "retention", "deletion", "quarantine")


class Fault(NamedTuple):
    """What is done to whom."""

    target: Target
    kind: Kind

    def __str__(self) -> str:
        return f"{self.target}-{self.kind}"


_PROCESS: Final[tuple[Kind, ...]] = ("kill", "stop", "term")
_NETWORK: Final[tuple[Kind, ...]] = ("before-commit", "after-commit", "slow", "refused", "stop")
POSSIBLE: Final[Mapping[Target, tuple[Kind, ...]]] = {
    "consumers": _PROCESS,
    "consumer": _PROCESS,
    "broker": (*_PROCESS, "refused"),
    "postgres": (*_PROCESS, "before-commit", "after-commit", "refused"),
    "kafka-network": _NETWORK,
    "postgres-network": _NETWORK,
    "publisher": (*_PROCESS, "slow", "refused"),
}
"""What can be done to whom; why the rest can't is said in docs/faults.md."""
FAULTS: Final = [Fault(target, kind) for target, kinds in POSSIBLE.items() for kind in kinds]
_SLOW: Final = {"broker": 0.1, "postgres": 0.2}
"""How often servers are chosen, against 1 for others: a broker needs five seconds to come back, and ten rounds wait for it."""


class Round(msgspec.Struct, frozen=True):
    """One round: faults that strike at the same time, in a situation."""

    number: int
    seed: int
    """What everything else that is random in the round is drawn from."""
    situation: Situation
    faults: tuple[Fault, ...]
    events: int
    """How many each publisher publishes."""


def draw(seed: int, number: int) -> Round:
    """The round of this number; it hangs on nothing but the two."""
    chosen = random.Random(f"{seed}/{number}")
    weights = [_SLOW.get(fault.target, 1.0) for fault in FAULTS]
    count = chosen.choice([1, 1, 1, 2, 2, 3])
    faults = {fault.target: fault for fault in chosen.choices(FAULTS, weights, k=count)}
    return Round(
        number, chosen.getrandbits(48), chosen.choice(SITUATIONS), tuple(faults.values()), chosen.randrange(40, 160)
    )
