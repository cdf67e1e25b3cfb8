"""The three pages as a monitoring system reads them."""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.fixtures.commands import wait_until

Samples = dict[tuple[str, str], float]
"""Values by the sample's name and the value of its one label."""


class Pages:
    """The pages of a server on this machine."""

    def __init__(self, port: int) -> None:
        self.port = port

    def get(self, path: str, method: str = "GET") -> tuple[int, bytes]:
        """Status and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def ready(self) -> tuple[int, list[str]]:
        """Status and reasons of /readyz."""
        status, body = self.get("/readyz")
        found: dict[str, Any] = json.loads(body)
        assert found["ready"] == (status == 200)
        return status, found["reasons"]

    def samples(self) -> Samples:
        """All samples of /metrics."""
        status, body = self.get("/metrics")
        assert status == 200
        return {
            (sample.name, next(iter(sample.labels.values()), "")): sample.value
            for family in text_string_to_metric_families(body.decode())
            for sample in family.samples
        }

    def wait_until_ready(self) -> None:
        """Wait until /readyz says yes."""
        wait_until(lambda: self.ready()[0] == 200, "readiness")

    def wait_for_reason(self, part: str) -> None:
        """Wait until /readyz says no for a reason with this text in it."""
        wait_until(lambda: any(part in reason for reason in self.ready()[1]), f"not ready: {part}")


def lines(log: Path) -> list[dict[str, Any]]:
    """The lines that a command has logged, as JSON."""
    return [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{") and line.endswith("}")]


def events(log: Path, name: str) -> list[dict[str, Any]]:
    """The lines of one kind."""
    return [line for line in lines(log) if line.get("event") == name]


def pages(log: Path) -> Pages:
    """The pages of a command that was given port 0, as soon as it has said which one it took."""
    wait_until(lambda: log.exists() and bool(events(log, "http_started")), "the port")
    return Pages(events(log, "http_started")[-1]["port"])
