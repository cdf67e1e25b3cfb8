"""Writing records into another topic as they are: key, value, headers, and the time at which the log took them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from milepost.consumer import kafka
from milepost.consumer.headers import read_headers
from milepost.schemas import KafkaUnavailable, WrongLog
from milepost.schemas.wire import Headers

_WAIT_SECONDS: Final = 0.5
_SETTINGS: Final[dict[str, str | int | bool]] = {
    "acks": "all",
    "enable.idempotence": True,
    "max.in.flight": 5,
    "compression.type": "zstd",
    "linger.ms": 20,
    # the broker limits what a record has when it is compressed, this what it has before
    "message.max.bytes": 1_000_000_000,
    "queue.buffering.max.kbytes": 65_536,
    "delivery.report.only.error": True,
}


class Copier:
    """Puts records into a topic, in order. Not for several threads."""

    def __init__(self, servers: str, topic: str) -> None:
        options: dict[str, Any] = {
            **kafka.settings(servers, "milepost-topic"),
            **_SETTINGS,
            "error_cb": kafka.log_error,
            "on_delivery": self._failed,
        }
        self._servers = servers
        self._topic = topic
        self._producer = Producer(options)
        self._failure: KafkaError | None = None

    def add(self, message: Message, partition: int, stop: Callable[[], bool]) -> Headers:
        """Put one record into a partition; waits while too many are under way. Gives its headers.

        Raises `WrongLog` for a record that can't be written as it is, `KafkaUnavailable` when one could not be delivered.
        """
        headers, readable = read_headers(message)
        if not readable:
            raise WrongLog(
                f"the record at {message.topic()}/{message.partition()}@{message.offset()} has a header whose name is not "
                "UTF-8; Kafka's client can't write it as it is, so this log can't be copied whole"
            )
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    message.value(),
                    message.key(),
                    partition,
                    headers=list(headers),
                    timestamp=message.timestamp()[1],
                )
            except BufferError:
                self._wait()
                if stop():
                    return headers
            except KafkaException as error:
                raise KafkaUnavailable(f"Kafka at {self._servers}: {kafka.reason(error)}") from error
            else:
                return headers

    def flush(self, stop: Callable[[], bool]) -> None:
        """Wait until all records are in the log. Raises `KafkaUnavailable` when one could not be delivered."""
        while self._producer.flush(_WAIT_SECONDS) and not stop():
            self._check()
        self._check()

    def poll(self) -> None:
        """Hear of failures."""
        self._producer.poll(0)
        self._check()

    def close(self) -> None:
        """Drop what is still under way."""
        self._producer.purge()
        self._producer.flush(_WAIT_SECONDS)

    def _wait(self) -> None:
        self._producer.poll(_WAIT_SECONDS)
        self._check()

    def _failed(self, error: KafkaError | None, _message: Message) -> None:
        self._failure = self._failure or error

    def _check(self) -> None:
        if self._failure is not None:
            raise KafkaUnavailable(f"a record could not be put into {self._topic}: {self._failure.str()}")
