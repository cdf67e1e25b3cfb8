"""Whether a client of Kafka still knows a broker.

librdkafka 2.16 can lose the last one for good: told that the cluster has no brokers, as a KRaft controller says while it has
fenced the only one, a client may ask nobody any more, whoever is there. Then only a new client helps.
"""

from __future__ import annotations

import time
from typing import Final

from milepost.consumer.statistics import Statistics

LOST_SECONDS: Final = 10.0
"""Without any broker, before a client is given up: a restart that librdkafka sees the end of takes less."""


class Contact:
    """Fed with a client's statistics, it says whether the client is lost."""

    def __init__(self) -> None:
        self._since: float | None = None
        """When there was no broker any more; None while there is one, and before the first."""
        self._had_one = False

    @property
    def is_lost(self) -> bool:
        """Whether there has been no broker for so long that the client should be made anew."""
        return self._since is not None and time.monotonic() - self._since > LOST_SECONDS

    def see(self, found: Statistics) -> None:
        """Take the statistics of one interval."""
        if any(broker.state == "UP" for broker in found.brokers.values()):
            self._since = None
            self._had_one = True
        elif self._since is None and self._had_one:
            self._since = time.monotonic()
