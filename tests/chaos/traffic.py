"""Events for fault runs: few sessions and many collisions, so that every rule is met while something breaks."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from milepost.schemas import CheckpointCreated, Event, SessionDeleted

SESSIONS: Final = [("acme", f"s{number}") for number in range(6)] + [("other", "s0"), ("other", "s1"), ("a.b", "c/d")]
REFUSED: Final = "refused"
"""Sessions whose names begin so are refused by Postgres while `milepost_chaos.refused` holds a row."""
RawRecord = tuple[bytes | None, bytes | None, list[tuple[str, str | bytes | None]]]


def made(chosen: random.Random, number: int, sessions: Sequence[tuple[str, str]] = SESSIONS) -> list[Event]:
    """So many events: checkpoints, some pinned, some sent twice, some with a taken id, some late, and a deletion now and then."""
    events: list[Event] = []
    now = datetime.now(UTC)
    for _ in range(number):
        what = chosen.random()
        if events and what < 0.08:
            events.append(chosen.choice(events[-10:]))
        else:
            events.append(_one(chosen, *chosen.choice(sessions), now, is_deletion=what > 0.96))
    return events


def _one(chosen: random.Random, tenant_id: str, session_id: str, now: datetime, *, is_deletion: bool) -> Event:
    event_id = UUID(int=chosen.getrandbits(128))
    # some are as old as the last few deletions, so that they come late
    moment = now - timedelta(milliseconds=chosen.choice([0, 0, 0, 0, 50, 2_000]))
    if is_deletion:
        return SessionDeleted(tenant_id=tenant_id, session_id=session_id, deleted_at=moment, event_id=event_id)
    few = chosen.random() < 0.1
    return CheckpointCreated(
        tenant_id=tenant_id,
        session_id=session_id,
        checkpoint_id=f"taken-{chosen.randrange(5)}" if few else f"{chosen.getrandbits(64):016x}",
        state=b'{"$type":0,"n":1.0,"text":"%b"}' % (b"x" * chosen.randrange(400)),
        step=chosen.randrange(100),
        pinned=chosen.random() < 0.02,
        created_at=moment,
        event_id=event_id,
    )


def checkpoint(tenant_id: str, session_id: str, number: int = 0) -> CheckpointCreated:
    """A plain checkpoint."""
    return CheckpointCreated(
        tenant_id=tenant_id, session_id=session_id, state=b'{"$type":0,"n":%d}' % number, step=number
    )


def bad_records(chosen: random.Random, number: int) -> list[RawRecord]:
    """Records that are no events, beside good ones in the same partitions."""
    return [
        (f"acme/s{chosen.randrange(6)}".encode(), b"no event %d" % chosen.randrange(1_000), [("x", None)])
        for _ in range(number)
    ]
