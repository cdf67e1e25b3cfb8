"""Asks both servers every few seconds whether they answer, apart from the workers, who may have nothing to ask."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from milepost.consumer import kafka
from milepost.consumer.config import ConsumeConfig
from milepost.consumer.database import Connection, connect, translated
from milepost.consumer.log import LogIdentity, ends
from milepost.consumer.observe.metrics import KAFKA, POSTGRES
from milepost.schemas import MilepostError

EVERY_SECONDS: Final = 2.0
_STOP_SECONDS: Final = 1.0
SILENCE_SECONDS: Final = 6.0
"""A server that has not answered for so long is away, whether or not it has refused."""


class Answer(msgspec.Struct):
    """What a server said last."""

    at: float
    """When it answered last, by the monotonic clock."""
    trouble: str | None
    """Why the last question failed, None when it did not."""


class Probe:
    """Two threads, one a server, so that one that hangs holds nobody up. They end with the process, or with `stop`."""

    def __init__(self, config: ConsumeConfig, log: LogIdentity) -> None:
        self._config = config
        self._log = log
        self._admin = kafka.admin(config.kafka)
        self._connection: Connection | None = None
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=[server, ask], name=f"milepost-probe-{server}", daemon=True)
            for server, ask in ((KAFKA, self._ask_kafka), (POSTGRES, self._ask_postgres))
        ]
        now = time.monotonic()
        # both have just answered, or the consumer would not have started
        self._answers = {KAFKA: Answer(now, None), POSTGRES: Answer(now, None)}
        self.ends: Mapping[int, int] = {}
        """Where each partition of the log ended when Kafka answered last."""

    def start(self) -> None:
        """Begin to ask."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Ask no more. A server that does not answer holds nobody up for long."""
        self._over.set()
        for thread in self._threads:
            thread.join(_STOP_SECONDS)

    def troubles(self) -> dict[str, str]:
        """The servers that are away, and why we think so."""
        found = {}
        for server, answer in self._answers.items():
            silence = time.monotonic() - answer.at
            if answer.trouble is not None:
                found[server] = answer.trouble
            elif silence > SILENCE_SECONDS:
                found[server] = f"{server} has not answered for {silence:.0f} s"
        return found

    def _run(self, server: str, ask: Callable[[], None]) -> None:
        while not self._over.is_set():
            try:
                ask()
            except MilepostError as error:
                self._answers[server] = Answer(self._answers[server].at, str(error))
            except Exception as error:  # noqa: BLE001 - whatever it is, the server is asked again
                self._answers[server] = Answer(self._answers[server].at, f"{type(error).__name__}: {error}")
            else:
                self._answers[server] = Answer(time.monotonic(), None)
            self._over.wait(EVERY_SECONDS)
        if server == POSTGRES:
            self._disconnect()

    def _ask_kafka(self) -> None:
        self.ends = ends(self._admin, self._config.kafka, self._log)

    def _ask_postgres(self) -> None:
        try:
            if self._connection is None:
                self._connection = connect(self._config.database, application="milepost-health")
            with translated(self._config.database):
                self._connection.execute("select 1")
        except BaseException:
            self._disconnect()
            raise

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
