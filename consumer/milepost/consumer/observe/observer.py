"""The worker's side: it counts, once a batch, and tells whoever wants to know."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import msgspec

from milepost.consumer.materializer import Applied
from milepost.consumer.observe import metrics
from milepost.consumer.observe.tallies import Tallies, WorkerState

_EVERY_SECONDS: Final = 1.0
_encoder: Final = msgspec.msgpack.Encoder()


class Member(Protocol):
    """A member of the consumer group."""

    assigned: frozenset[int]
    joined: bool
    started: bool
    assignments: int


class Observer:
    """Counts what a worker does. Without `tell` it only counts, which costs some microseconds a batch.

    `tell` gets a `WorkerState` as MessagePack: after each batch, after each change, and every second. So whoever hears
    nothing for long knows that the loop hangs, and a worker that is killed takes one batch's counts with it at most.
    """

    def __init__(self, tell: Callable[[bytes], None] | None = None) -> None:
        self._tell = tell
        self._state = WorkerState(Tallies.zero())
        self._told = 0.0

    def batch(self, applied: Applied, seconds: float) -> None:
        """A batch was committed, after so many seconds."""
        count = self._state.tallies.count
        for outcome, number in applied.outcomes.items():
            count(metrics.EVENTS, number, outcome.value)
        count(metrics.EVENTS, applied.quarantined, metrics.QUARANTINED)
        for reason, number in applied.reasons.items():
            count(metrics.QUARANTINE, number, reason)
        count(metrics.STATE_BYTES, applied.state_bytes)
        count(metrics.WRITTEN, applied.written)
        count(metrics.SKIPPED, applied.skipped)
        count(metrics.PRUNED, applied.pruned)
        spread = self._state.tallies.spread
        spread(metrics.BATCH_EVENTS, sum(applied.counts.values()))
        spread(metrics.BATCH_BYTES, applied.state_bytes)
        spread(metrics.BATCH_SECONDS, seconds)

    def pruned(self, number: int) -> None:
        """So many states were removed beside the batches, after a change of policy."""
        self._state.tallies.count(metrics.PRUNED, number)

    def fenced(self) -> None:
        """A batch was given up to another consumer."""
        self._state.tallies.count(metrics.FENCED)

    def away(self, server: str, why: str) -> None:
        """An attempt failed for now."""
        self._state.tallies.count(metrics.UNAVAILABLE, 1, server)
        self._state.away[server] = why
        self._send()

    def back(self, server: str) -> None:
        """Work goes on with a server that was away, or was not."""
        if self._state.away.pop(server, None) is not None:
            self._state.tallies.count(metrics.RECONNECTS, 1, server)
            self._send()

    def stopped(self, partitions: Mapping[int, str], stops: int) -> None:
        """These partitions are stopped now, and why; `stops` of them are new."""
        self._state.stopped = dict(partitions)
        self._state.tallies.count(metrics.STOPS, stops)
        self._send()

    def stands(self, positions: Mapping[int, int], member: Member) -> None:
        """How the worker stands, at each pass of its loop."""
        if self._tell is None:
            return
        state = self._state
        before = (state.positions, state.joined, state.started)
        state.positions = {p: positions[p] for p in sorted(member.assigned) if p in positions}
        # who has nothing to read is ready for what may come
        state.joined, state.started = member.joined, member.started or not member.assigned
        state.tallies.counters[metrics.REBALANCES.name][""] = member.assignments
        if before != (state.positions, state.joined, state.started):
            self._send()
        else:
            self.passes()

    def passes(self) -> None:
        """The loop lives, though it only waits."""
        if time.monotonic() - self._told >= _EVERY_SECONDS:
            self._send()

    def _send(self) -> None:
        if self._tell is not None:
            self._told = time.monotonic()
            self._tell(_encoder.encode(self._state))
