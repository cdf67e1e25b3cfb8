"""Servers that are away: one log line when that begins and one when it is over, and how long to wait before each attempt."""

from __future__ import annotations

import logging
import time
from typing import Final

import msgspec

from milepost.consumer.backoff import Backoff
from milepost.consumer.database import is_about_statement, is_scarce
from milepost.consumer.observe import Observer
from milepost.consumer.observe.metrics import KAFKA, POSTGRES
from milepost.schemas import KafkaUnavailable, Unavailable

logger = logging.getLogger(__name__)

_PAUSE: Final = Backoff(0.1, 5.0)


_QUIET_SECONDS: Final = 10.0


class _Outage(msgspec.Struct):
    since: float
    failures: int = 0
    last: float = 0.0
    is_statement: bool = False
    """The server answers, and fails to apply what we bring: that it lets us read proves nothing."""
    is_told: bool = True
    """Whether it was this that the log told of: Kafka may be found away by an attempt and beside it."""


class Outages:
    """What a worker waits for. Not for several threads."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._open: dict[str, _Outage] = {}
        self._watched: _Outage | None = None

    @property
    def failures(self) -> int:
        """Failed attempts since something last worked."""
        return sum(outage.failures for outage in self._open.values())

    def failed(self, error: Unavailable) -> float:
        """An attempt failed. Gives the seconds to wait before the next one."""
        server = KAFKA if isinstance(error, KafkaUnavailable) else POSTGRES
        if (outage := self._open.get(server)) is None:
            is_told = server != KAFKA or self._watched is None
            outage = self._open[server] = _Outage(time.monotonic(), is_told=is_told)
            level = (logging.ERROR if is_scarce(error) else logging.WARNING) if is_told else logging.DEBUG
            extra = {"event": "server_away", "server": server} if is_told else {}
            logger.log(level, "%s; waiting until it is back", error, extra=extra)
        outage.failures += 1
        outage.last, outage.is_statement = time.monotonic(), is_about_statement(error)
        self._observer.away(server, str(error))
        return _PAUSE.seconds(self.failures)

    def silent(self, seconds: float) -> None:
        """Postgres owes us an answer for so long, though its connection lives."""
        if POSTGRES not in self._open:
            self._open[POSTGRES] = _Outage(time.monotonic() - seconds)
            why = f"Postgres has not answered for {seconds:.0f} s, though it is still connected"
            logger.warning("%s; waiting until it does", why, extra={"event": "server_away", "server": POSTGRES})
            self._observer.away(POSTGRES, why)

    def worked(self, *, is_applied: bool) -> None:
        """Both servers were asked and have answered; records were applied, or there were none."""
        now = time.monotonic()
        for server, outage in list(self._open.items()):
            if outage.is_statement and not is_applied and now - outage.last < _QUIET_SECONDS:
                continue
            del self._open[server]
            if not outage.is_told:
                continue
            logger.info(
                "%s is back: going on after %d failed attempts in %.0f s",
                *(server, outage.failures, now - outage.since),
                extra={"event": "server_back", "server": server},
            )
            self._observer.back(server)

    def watched(self, trouble: str | None) -> None:
        """What came of asking Kafka beside the reading, which waits in silence: why it failed, or None."""
        if trouble is not None and self._watched is None:
            self._watched = _Outage(time.monotonic(), is_told=KAFKA not in self._open)
            if not self._watched.is_told:
                return
            logger.warning(
                "Kafka does not answer: %s; waiting until it does",
                trouble,
                extra={"event": "server_away", "server": KAFKA},
            )
            self._observer.away(KAFKA, f"Kafka does not answer: {trouble}")
        elif trouble is None and self._watched is not None:
            watched, self._watched = self._watched, None
            if not watched.is_told:
                return
            logger.info(
                "Kafka answers again after %.0f s",
                time.monotonic() - watched.since,
                extra={"event": "server_back", "server": KAFKA},
            )
            self._observer.back(KAFKA)
