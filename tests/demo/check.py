"""What the demo proves: every state that should be there is, byte for byte, and no other."""

from __future__ import annotations

from collections import defaultdict

from milepost.consumer import CheckpointStore
from milepost.schemas import CheckpointCreated

KEPT = 50


class DifferenceFound(Exception):
    """The view does not hold what was published."""


class Sent:
    """What was published, in order, by session."""

    def __init__(self) -> None:
        self.sessions: dict[tuple[str, str], list[CheckpointCreated]] = defaultdict(list)

    def add(self, event: CheckpointCreated) -> None:
        """Remember an event."""
        self.sessions[event.tenant_id, event.session_id].append(event)

    def surviving(self, tenant_id: str, session_id: str) -> list[CheckpointCreated]:
        """What retention keeps of a session."""
        return self.sessions[tenant_id, session_id][-KEPT:]

    @property
    def total(self) -> int:
        """How many events were published."""
        return sum(len(events) for events in self.sessions.values())


def compare(store: CheckpointStore, sent: Sent, tenant_id: str, session_id: str) -> int:
    """Compare a session's states with what was sent, and say how many were compared. Raises `DifferenceFound`."""
    expected = sent.surviving(tenant_id, session_id)
    found = [info.checkpoint_id for info in store.list(tenant_id, session_id)]
    if found != (ids := [event.checkpoint_id for event in expected]):
        raise DifferenceFound(f"{tenant_id}/{session_id}: expected {len(ids)} checkpoints {ids}, found {found}")
    for event in expected:
        checkpoint = store.get(tenant_id, session_id, event.checkpoint_id)
        if checkpoint is None or checkpoint.state != event.state:
            state = checkpoint.state if checkpoint is not None else None
            raise DifferenceFound(
                f"{tenant_id}/{session_id}/{event.checkpoint_id}: expected {event.state!r:.200}, found {state!r:.200}"
            )
    history = len(store.history(tenant_id, session_id))
    if history != len(sent.sessions[tenant_id, session_id]):
        raise DifferenceFound(f"{tenant_id}/{session_id}: expected {sent.total} events in the history, found {history}")
    return len(expected)
