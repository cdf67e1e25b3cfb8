"""What a consumer is told, checked once at the edge."""

from __future__ import annotations

from typing import Final

import msgspec

from milepost.schemas import DEFAULT_TOPIC

BATCH_EVENTS: Final = 1_000
BATCH_BYTES: Final = 8 * 1024 * 1024
STUCK_SECONDS: Final = 60.0


class ConsumeConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Where a consumer reads and writes, and how much at once."""

    kafka: str
    """Bootstrap servers, `HOST:PORT[,…]`."""
    database: str
    """A Postgres conninfo."""
    topic: str = DEFAULT_TOPIC
    batch_events: int = BATCH_EVENTS
    """Events of one transaction at most."""
    batch_bytes: int = BATCH_BYTES
    """Bytes of state of one transaction at most; a single larger event is a batch of its own."""
    integrity_keys: tuple[str, ...] = ()
    """Files of integrity keys, the one that signs first; none for a view without MACs."""
    http: str | None = None
    """Where to answer for health, readiness and metrics, `HOST:PORT`; None for nowhere."""
    stuck_seconds: float = STUCK_SECONDS
    """A worker that has not passed its loop for so long is unhealthy. Longer than any wait for a lock or a connection."""
