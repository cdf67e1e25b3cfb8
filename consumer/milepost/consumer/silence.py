"""How long a consumer waits for an answer that Postgres owes it, on a connection that lives.

A statement has Postgres' own limit. A COMMIT has none: where it waits for a synchronous standby that is gone it waits for ever,
and no keepalive ends it, since the server itself lives.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from milepost.schemas import DatabaseUnavailable

TELL_SECONDS: Final = 10.0
STOP_SECONDS: Final = 5.0
"""How long an answer is still waited for by who was told to stop; supervisors kill after ten seconds or more."""
GIVE_UP_SECONDS: Final = 330.0
"""Past every statement's own limit."""


class Patience:
    """For `OverlappingConnection.silence`. What became of a COMMIT that was given up, the stored position will say."""

    def __init__(
        self, stop: Callable[[], bool], tell: Callable[[float], None], passes: Callable[[], None] | None = None
    ) -> None:
        """`tell` is called while it takes long, with the seconds; `passes` as long as somebody waits."""
        self._stop = stop
        self._tell = tell
        self._passes = passes
        self._stopped_at: float | None = None

    def __call__(self, seconds: float) -> None:
        """Raises `DatabaseUnavailable` when it is enough."""
        if self._passes is not None:
            self._passes()
        if seconds >= TELL_SECONDS:
            self._tell(seconds)
        if self._stop():
            self._stopped_at = self._stopped_at or time.monotonic()
            if time.monotonic() - self._stopped_at >= STOP_SECONDS:
                raise DatabaseUnavailable(f"Postgres has not answered for {seconds:.0f} s: stopped without its answer")
        if seconds >= GIVE_UP_SECONDS:
            raise DatabaseUnavailable(f"Postgres has not answered for {seconds:.0f} s")
