"""What /healthz and /readyz say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from milepost.consumer.observe.board import Seen


class Health(msgspec.Struct):
    """Whether every worker passes its loop. Servers that are away make nobody unhealthy: a restart would not help."""

    healthy: bool
    reasons: list[str]


class Readiness(msgspec.Struct):
    """Whether events are being taken in."""

    ready: bool
    reasons: list[str]


def health(seen: Sequence[Seen], limit: float) -> Health:
    """Unhealthy is a worker that was not heard of for more than `limit` seconds."""
    reasons = [
        f"worker {each.number + 1} has not passed its loop for {each.silence:.0f} s"
        + ("" if each.running else ": it ended and was not started again yet")
        for each in seen
        if each.silence > limit
    ]
    return Health(not reasons, reasons)


def readiness(seen: Sequence[Seen], troubles: Mapping[str, str] | None, limit: float) -> Readiness:
    """Ready is who may reach both servers, reads its share of the log, and has stopped nothing.

    `troubles` are the servers that are away; None while the consumer has not begun.
    """
    if troubles is None:
        return Readiness(ready=False, reasons=["the consumer is checking the log and the view"])
    reasons = list(troubles.values())
    for each in seen:
        reasons += [f"worker {each.number + 1}: {reason}" for reason in _of_worker(each, troubles)]
    reasons += health(seen, limit).reasons
    return Readiness(not reasons, reasons)


def _of_worker(each: Seen, troubles: Mapping[str, str]) -> list[str]:
    if not each.running:
        return ["it does not run"]
    if each.state is None:
        return ["it is starting"]
    reasons = [why for server, why in each.state.away.items() if server not in troubles]
    if not each.state.joined:
        reasons.append("the group has given it no share yet")
    elif not each.state.started:
        reasons.append("it does not read its partitions yet")
    reasons += [f"partition {partition} is stopped {why}" for partition, why in sorted(each.state.stopped.items())]
    return reasons
