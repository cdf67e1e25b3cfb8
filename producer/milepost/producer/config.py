"""A publisher's settings, checked: which of librdkafka's may be changed, and which would break a promise."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from confluent_kafka import KafkaException, Producer

from milepost.producer.config_rules import BOUNDED, FIXED, LOGIN_TRIES, REFUSED, SECRET
from milepost.producer.guard import log_exception
from milepost.schemas import InvalidSetting
from milepost.schemas.wire import MAX_RECORD_BYTES

DEFAULT_QUEUE_BYTES: Final = 64 * 1024 * 1024
DEFAULT_SOURCE: Final = "/runtimes/unnamed"
LARGEST_WINDOW_BYTES: Final = 16 * 1024 * 1024

Value = str | int | float | bool | Callable[..., Any] | logging.Logger

DEFAULTS: Final[Mapping[str, Value]] = {
    "acks": "all",
    "enable.idempotence": True,  # KIP-98: retries neither double nor reorder
    "partitioner": "murmur2_random",  # Java's, so that every publisher puts a session into the same partition
    "message.max.bytes": MAX_RECORD_BYTES,
    "compression.type": "zstd",
    "linger.ms": 5,
    "message.timeout.ms": 0,  # an outage of any length fails no event while there is memory
    "queue.buffering.max.messages": 0,  # no limit: the outbox bounds what waits, in bytes
    "queue.buffering.max.kbytes": 2_097_151,
    "reconnect.backoff.max.ms": 2_000,  # ten seconds by default: how long an outage is felt after its end
    "socket.keepalive.enable": True,
    # KIP-1102: who knows no broker any more begins anew with the first ones; after five minutes by default
    "metadata.recovery.rebootstrap.trigger.ms": 10_000,
    "client.id": "milepost-producer",
    "log_level": 2,  # what it says below that comes through error_cb too, and is logged in a measured way
}

_SERVER = re.compile(r"(?:[A-Z_]+://)?(?:\[[0-9A-Fa-f:.%]+\]|[^\s,:/\[\]]+)(?::[0-9]{1,5})?")
_TOPIC = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
_SOURCE = re.compile(r"[!#$%&'()*+,\-./0-9:;=?@A-Z\[\]_a-z~]{1,4096}")  # RFC 3986


class Settings:
    """What a publisher was told, checked. Shows no secret when printed."""

    def __init__(
        self, bootstrap_servers: str, *, topic: str, source: str, queue_bytes: int, kafka: Mapping[str, Value]
    ) -> None:
        """Raises `InvalidSetting`, naming what is at fault. Reads files of certificates; touches no network."""
        if isinstance(bootstrap_servers, str) and "@" in bootstrap_servers:  # not shown: it may hold a password
            raise InvalidSetting("bootstrap_servers: expected HOST:PORT, comma between them, found one with an @ in it")
        self.servers: Final = _matching(
            "bootstrap_servers", bootstrap_servers, "HOST:PORT, comma between them", _servers
        )
        self.topic: Final = _matching("topic", topic, "1 to 249 characters of A-Z a-z 0-9 . _ -", _TOPIC.fullmatch)
        self.source: Final = _matching("source", source, "a URI reference, as /runtimes/NAME", _SOURCE.fullmatch)
        if type(queue_bytes) is not int or queue_bytes < 1:
            raise InvalidSetting(f"queue_bytes: expected a number of bytes, 1 or more, found {queue_bytes!r}")
        self.queue_bytes: Final = queue_bytes
        # librdkafka copies what it holds: so it holds only what keeps the connections busy, and memory stays near the bound
        self.window_bytes: Final = min(queue_bytes, LARGEST_WINDOW_BYTES)
        if not isinstance(kafka, Mapping):
            raise InvalidSetting(f"kafka: expected a mapping of librdkafka's settings, found {type(kafka).__name__}")
        for name, value in kafka.items():
            _check(name, value)
        self._kafka: Final = dict(kafka)
        error_cb = self._kafka.pop("error_cb", None)
        self.on_error: Final = _guarded("error_cb", error_cb) if callable(error_cb) else None
        for name in ("stats_cb", "throttle_cb"):
            if callable(callback := self._kafka.get(name)):
                self._kafka[name] = _guarded(name, callback)
        self._try()

    def for_producer(self, on_error: Callable[[Any], None]) -> dict[str, Any]:
        """What a librdkafka producer is made from."""
        logger = logging.getLogger("milepost.producer.librdkafka")
        return {
            "logger": logger,
            **DEFAULTS,
            **self._kafka,
            "bootstrap.servers": self.servers,
            "error_cb": on_error,
        }

    def redact(self, error: Exception) -> str:
        """An error's text, without any of the secrets."""
        text = error.args[0].str() if isinstance(error, KafkaException) else str(error)
        for name, value in self._kafka.items():
            if SECRET.search(name) and isinstance(value, str) and value:
                text = text.replace(value, "***")
        return text

    def __repr__(self) -> str:
        return f"Settings({self.servers!r}, topic={self.topic!r}, source={self.source!r}, kafka={sorted(self._kafka)})"

    def _try(self) -> None:
        """Let librdkafka judge names and values: make a producer that has nobody to connect to, and drop it."""
        heard: list[str] = []
        logger = logging.Logger("milepost.producer.check", logging.DEBUG)  # noqa: LOG001
        logger.addHandler(_Listener(heard))
        config = {**DEFAULTS, **_without_login(self._kafka), "logger": logger, "log_level": 7}
        config.pop("debug", None)
        try:
            producer = Producer(config)
            producer.poll(0)
        except (KafkaException, TypeError, ValueError) as error:
            raise InvalidSetting(f"kafka: {self.redact(error)}") from None
        for line in heard:
            if "is a consumer property" in line:
                name = next((name for name in self._kafka if f" {name} " in line), "a setting")
                raise InvalidSetting(f"kafka: {name} is a setting of consumers")


class _Listener(logging.Handler):
    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(record.getMessage())


def _check(name: object, value: object) -> None:
    if not isinstance(name, str):
        raise InvalidSetting(f"kafka: expected names of librdkafka's settings, found {name!r}")
    if (why := REFUSED.get(name)) is not None:
        raise InvalidSetting(f"kafka: {name} can't be set: {why}")
    if name in ("error_cb", "oauth_cb", "stats_cb", "throttle_cb") and not callable(value):
        raise InvalidSetting(f"kafka: {name}: expected a function, found {type(value).__name__}")
    if name == "logger" and not isinstance(value, logging.Logger):
        raise InvalidSetting(f"kafka: logger: expected a logging.Logger, found {type(value).__name__}")
    if isinstance(value, str) and not _is_text(value):
        raise InvalidSetting(f"kafka: {name}: expected a text, found one with half a surrogate pair")
    text = str(value).strip().lower()
    if name in FIXED and text not in FIXED[name][0]:
        accepted, why = FIXED[name]
        raise InvalidSetting(f"kafka: {name}: expected {accepted[0]}, found {text}: {why}")
    if name in BOUNDED:
        least, most, why = BOUNDED[name]
        if not text.isdecimal() or not least <= int(text) <= most:
            raise InvalidSetting(f"kafka: {name}: expected {least} to {most}, found {text}: {why}")


def _without_login(kafka: Mapping[str, Value]) -> dict[str, Value]:
    """Without what would ask for a token or a ticket already when a producer is made."""
    mechanism = str(kafka.get("sasl.mechanism", kafka.get("sasl.mechanisms", "GSSAPI"))).upper()
    protocol = str(kafka.get("security.protocol", "plaintext")).upper()
    if not protocol.startswith("SASL") or mechanism not in LOGIN_TRIES:
        return {name: value for name, value in kafka.items() if name != "oauth_cb"}
    rest = {
        name: value for name, value in kafka.items() if name not in ("oauth_cb", "sasl.mechanism", "sasl.mechanisms")
    }
    return {**rest, "security.protocol": "SSL" if protocol == "SASL_SSL" else "PLAINTEXT"}


def _matching(name: str, value: object, expected: str, check: Callable[[str], object]) -> str:
    if not isinstance(value, str) or not check(value):
        raise InvalidSetting(f"{name}: expected {expected}, found {value!r}")
    return value


def _servers(value: str) -> bool:
    return _is_text(value) and all(_SERVER.fullmatch(server.strip()) for server in value.split(","))


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeError:
        return False
    return True


def _guarded(name: str, callback: Callable[..., Any]) -> Callable[..., None]:
    """The callback, whose exceptions are logged: they would end up in the thread that delivers."""

    def call(*arguments: Any) -> None:
        try:
            callback(*arguments)
        except BaseException:  # noqa: BLE001 - whatever it is, SystemExit too, it is the callback's own
            log_exception(logging.getLogger("milepost.producer"), "%s raised", name)

    return call
