"""What a publisher asks of whatever carries its events to the log."""

from __future__ import annotations

from typing import Protocol


class Carrier(Protocol):
    """Carries an outbox's events to the log: the courier to Kafka, its twin into memory."""

    @property
    def asleep(self) -> bool:
        """Whether it has to be woken for an event that was just put."""

    @property
    def started(self) -> bool:
        """Whether `start` was called with success."""

    def start(self) -> None:
        """Begin, unless it has begun. Never raises."""

    def wake(self) -> None:
        """Look into the outbox. Never blocks."""

    def flush(self, timeout: float) -> bool:
        """Block until all that was put before is settled; whether it was within `timeout` seconds."""

    def stop(self, deadline: float | None) -> None:
        """End when all is settled, at `deadline` (monotonic) at the latest. Never blocks, may be called again."""

    def conclude(self, deadline: float) -> None:
        """Block until the end that `stop` asked for; then all is settled and reported. May be called again."""
