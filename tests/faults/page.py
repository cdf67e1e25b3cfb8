"""The table of docs/faults.md, from what the tests do."""

from __future__ import annotations

from typing import Final

from tests.chaos.schedule import POSSIBLE, SITUATIONS, Kind, Situation, Target

KINDS: Final[dict[Kind, str]] = {
    "kill": "kill -9",
    "stop": "stopped for longer than the session timeout, then woken",
    "term": "SIGTERM",
    "before-commit": "cut before COMMIT",
    "after-commit": "cut after COMMIT was sent",
    "slow": "slow",
    "refused": "refused at start",
}
TARGETS: Final[dict[Target, str]] = {
    "consumers": "consumer, all there are",
    "consumer": "one of several consumers",
    "broker": "broker",
    "postgres": "Postgres",
    "kafka-network": "network to Kafka, of one consumer",
    "postgres-network": "network to Postgres, of one consumer",
    "publisher": "publisher, and its network",
}
_WORLDS: Final[dict[Situation, str]] = {
    "steady": "batch",
    "rebalance": "rebalance",
    "retention": "batch",
    "deletion": "batch",
    "quarantine": "batch",
}


def cell(target: Target, kind: Kind, situation: Situation) -> str:
    """The test, and the world in it; or the number of the sentence that says why there is none."""
    if kind not in POSSIBLE[target]:
        return f"[{_reason(target, kind)}]"
    if target == "publisher":
        return f"`{target}-{kind}`" if situation in ("steady", "deletion") else "[6]"
    return f"`{target}-{kind}` {_WORLDS[situation]}"


def _reason(target: Target, kind: Kind) -> int:
    if target == "publisher":
        return 5
    if target.endswith("-network"):
        return 1
    if target in ("consumers", "consumer"):
        return 2
    return 3 if kind == "slow" else 4


def table() -> str:
    """The whole table."""
    lines = [f"| target | fault | {' | '.join(SITUATIONS)} |", f"|---|---|{'---|' * len(SITUATIONS)}"]
    for target, who in TARGETS.items():
        for kind, what in KINDS.items():
            cells = " | ".join(cell(target, kind, situation) for situation in SITUATIONS)
            lines.append(f"| {who} | {what} | {cells} |")
    return "\n".join(lines)
