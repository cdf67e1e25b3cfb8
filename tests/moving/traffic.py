"""Publishers and readers that go on while a view is moved."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count, cycle

from milepost.consumer import Checkpoint, CheckpointStore
from milepost.producer import CheckpointPublisher
from milepost.schemas import CheckpointCreated

TENANT = "acme"
SESSIONS = ("trip-42", "trip-43", "trip-44", "trip-45", "trip-46")


class Reader:
    """Reads the newest checkpoint of each session again and again, from the old view, then from the new one."""

    def __init__(self, store: CheckpointStore) -> None:
        self.rounds = 0
        self.stale: list[str] = []
        """Answers that were older than one before."""
        self._store = store
        self._next: CheckpointStore | None = None
        self._seen: dict[str, Checkpoint] = {}
        self._waits = True

    def switch(self, store: CheckpointStore, *, waits: bool) -> None:
        """Read from another view from the next round on; `waits` until it has what was seen, as the page says."""
        self._waits = waits
        self._next = store

    @property
    def has_switched(self) -> bool:
        """Whether the last round was read from the view that was switched to."""
        return self._next is None

    def round(self) -> None:
        """Read each session once."""
        switched, self_next = False, self._next
        if self_next is not None:
            for seen in self._seen.values() if self._waits else ():
                self_next.wait_for(seen.position, timeout=30)
            self._store, switched = self_next, True
        for session_id in SESSIONS:
            self._read(session_id)
        if switched:
            self._next = None
        self.rounds += 1

    def _read(self, session_id: str) -> None:
        found, before = self._store.latest(TENANT, session_id), self._seen.get(session_id)
        if found is None or (before is not None and step(found) < step(before)):
            self.stale.append(f"{session_id}: {found and step(found)} after {before and step(before)}")
            return
        again = self._store.get(TENANT, session_id, found.checkpoint_id)
        if again is not None and again.state != found.state:
            self.stale.append(f"{session_id}: {again.state!r} for {found.state!r}")
        self._seen[session_id] = found


def step(checkpoint: Checkpoint) -> int:
    """How far the session was."""
    return int(json.loads(checkpoint.state)["step"])


@contextmanager
def repeated(act: Callable[[], None]) -> Iterator[None]:
    """Do something again and again, in a thread of its own, until the block ends; its failure is the block's."""
    over = threading.Event()
    failures: list[BaseException] = []

    def run() -> None:
        try:
            while not over.is_set():
                act()
        except BaseException as failure:  # noqa: BLE001 - raised where the block ends
            failures.append(failure)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(60)
    assert not thread.is_alive()
    for failure in failures:
        raise failure


def publishing(publisher: CheckpointPublisher, numbers: Iterator[int]) -> Callable[[], None]:
    """Publishes the next step of the next session, and waits until the log has it."""
    sessions = cycle(SESSIONS)

    def publish() -> None:
        state = b'{"$type":0,"step":%d}' % next(numbers)
        event = CheckpointCreated(tenant_id=TENANT, session_id=next(sessions), state=state)
        publisher.publish(event).result(30)

    return publish


def steps() -> Iterator[int]:
    """Growing numbers, for all publishers of a test."""
    return count()
