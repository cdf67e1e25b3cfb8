"""The three pages of a consumer: /healthz, /readyz, /metrics."""

from __future__ import annotations

import logging
from http import HTTPStatus

import msgspec
from prometheus_client import generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from milepost.consumer.config import ConsumeConfig
from milepost.consumer.log import LogIdentity
from milepost.consumer.observe import exposition
from milepost.consumer.observe.board import Board
from milepost.consumer.observe.probe import Probe
from milepost.consumer.observe.server import HttpServer
from milepost.consumer.observe.verdict import health, readiness

logger = logging.getLogger(__name__)

_JSON = "application/json"


class Observatory:
    """Answers from its making on: first that the consumer is not ready, after `begin` how it is."""

    def __init__(self, address: str, workers: int, stuck_seconds: float) -> None:
        """Raises `InvalidSetting` for an address that is none, `MilepostError` for one that cannot be had."""
        self.board = Board(workers)
        self._stuck = stuck_seconds
        self._probe: Probe | None = None
        self._server = HttpServer(
            address, {"/healthz": self._healthz, "/readyz": self._readyz, "/metrics": self._metrics}
        )
        logger.info(
            "http: listening on port %d", self._server.port, extra={"event": "http_started", "port": self._server.port}
        )

    def begin(self, config: ConsumeConfig, log: LogIdentity) -> None:
        """The consumer has been checked and starts: ask its servers from now on."""
        probe = Probe(config, log)
        probe.start()
        self._probe = probe

    def close(self) -> None:
        """Answer no more."""
        if self._probe is not None:
            self._probe.stop()
        self._server.close()

    def _healthz(self) -> tuple[HTTPStatus, str, bytes]:
        # while it starts there is no loop yet, and a server that does not answer ends it by itself
        found = health(self.board.workers() if self._probe is not None else [], self._stuck)
        return _status(found.healthy), _JSON, msgspec.json.encode(found) + b"\n"

    def _readyz(self) -> tuple[HTTPStatus, str, bytes]:
        found = readiness(self.board.workers(), self._troubles(), self._stuck)
        return _status(found.ready), _JSON, msgspec.json.encode(found) + b"\n"

    def _metrics(self) -> tuple[HTTPStatus, str, bytes]:
        seen, tallies = self.board.totals()
        away = self._troubles()
        ready = readiness(seen, away, self._stuck).ready
        ends = self._probe.ends if self._probe is not None else {}
        registry = exposition.registry(tallies, exposition.gauges(seen, ends, away, ready))
        return HTTPStatus.OK, CONTENT_TYPE_PLAIN_0_0_4, generate_latest(registry)

    def _troubles(self) -> dict[str, str] | None:
        return self._probe.troubles() if self._probe is not None else None


def _status(good: bool) -> HTTPStatus:
    return HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE
