"""Clients of Kafka for the consumer's side, and what its errors mean for us."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from milepost.schemas import InvalidSetting, KafkaUnavailable

logger = logging.getLogger(__name__)

ANSWER_SECONDS: Final = 10.0
_SILENCE_SECONDS: Final = 60.0
_silent_until: dict[int, float] = {}
_SUMMARIES: Final = (KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT)  # noqa: SLF001
_SERVER: Final = re.compile(r"(?:[A-Za-z_]+://)?(?:\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?")
_Result = TypeVar("_Result")


def settings(bootstrap_servers: str, client: str) -> dict[str, str | int | float | bool]:
    """What every client of ours has in common. Raises `InvalidSetting` for an address that is none."""
    for server in bootstrap_servers.split(","):
        # as librdkafka reads it: a protocol may stand before it, and 9092 is the port when none is named
        if _SERVER.fullmatch(server.strip()) is None:
            if "@" in bootstrap_servers:  # there may be a password before it, with commas in it, too
                raise InvalidSetting("kafka: expected HOST:PORT, found a text with an @")
            raise InvalidSetting(f"kafka: expected HOST:PORT, found {server.strip()!r}")
    return {
        "bootstrap.servers": bootstrap_servers,
        "client.id": client,
        "socket.timeout.ms": 10_000,
        # KIP-1102: who knows no broker any more begins anew with the first ones; after five minutes by default
        "metadata.recovery.rebootstrap.trigger.ms": 10_000,
        "log_level": 0,
    }


def admin(bootstrap_servers: str, on_error: Callable[[KafkaError], None] | None = None) -> AdminClient:
    """An admin client. Keep it while its calls run: a collected one fails them."""
    options: dict[str, Any] = {**settings(bootstrap_servers, "milepost-admin"), "error_cb": on_error or log_error}
    return AdminClient(options)


def log_error(error: KafkaError) -> None:
    """What librdkafka reports beside the calls: it retries by itself, so it is for the log alone, once a minute of a kind."""
    now = time.monotonic()
    if now >= _silent_until.get(error.code(), 0.0):
        _silent_until[error.code()] = now + _SILENCE_SECONDS
        logger.info("kafka: %s", error.str())
    else:
        logger.debug("kafka: %s", error.str())


class Troubles:
    """What librdkafka reports, for who tells it in lines of its own: kept, and logged for the curious alone."""

    def __init__(self) -> None:
        self.last: str | None = None

    def __call__(self, error: KafkaError) -> None:
        """For `error_cb`."""
        if error.code() not in _SUMMARIES:
            self.last = error.str()
        logger.debug("kafka: %s", error.str())

    def about(self, trouble: str | None) -> str | None:
        """A failure's reason, with what was reported last, which is often more telling."""
        return trouble if trouble is None or self.last is None else f"{trouble}; {self.last}"


@contextmanager
def translated(bootstrap_servers: str, seconds: float = ANSWER_SECONDS) -> Iterator[None]:
    """Turn librdkafka's errors into `KafkaUnavailable`, naming the servers; `seconds` is how long the calls wait."""
    try:
        yield
    except KafkaException as error:
        raise KafkaUnavailable(f"Kafka at {bootstrap_servers} could not do it now: {reason(error)}") from error
    except TimeoutError as error:
        raise KafkaUnavailable(f"Kafka at {bootstrap_servers} did not answer within {seconds:g} s") from error


def reason(error: KafkaException) -> str:
    """One line of what librdkafka said."""
    detail = error.args[0] if error.args else error
    return detail.str() if isinstance(detail, KafkaError) else str(detail)


def code(error: KafkaException) -> int | None:
    """librdkafka's error code, when there is one."""
    detail = error.args[0] if error.args else None
    return detail.code() if isinstance(detail, KafkaError) else None


def only(futures: Mapping[Any, Future[_Result]], seconds: float = ANSWER_SECONDS) -> _Result:
    """The result of the one call of an admin request."""
    (future,) = futures.values()
    return future.result(seconds)


def is_unknown_topic(error: KafkaException) -> bool:
    """Whether Kafka says that there is no such topic."""
    return code(error) in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)  # noqa: SLF001
