"""Settings: what is refused, by name; what is passed on; and that no secret is shown."""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from milepost.producer import CheckpointPublisher, Spool
from milepost.producer.config import Settings
from milepost.schemas import InvalidSetting
from tests.producer.conftest import Make
from tests.producer.helpers import NOBODY, created, wait_until

SECRET = "hunter2-and-more"


def settings(**kafka: Any) -> Settings:
    return Settings(
        "a:1,b", topic="t", source="/x", queue_bytes=1_000, kafka={n.replace("__", "."): v for n, v in kafka.items()}
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("acks", 1),
        ("request.required.acks", "0"),
        ("enable.idempotence", False),
        ("enable.gapless.guarantee", True),
        ("partitioner", "random"),
        ("queuing.strategy", "lifo"),
        ("message.max.bytes", 1_000_000),
        ("message.max.bytes", "x"),
        ("max.in.flight", 6),
        ("max.in.flight.requests.per.connection", 1_000_000),
        ("transactional.id", "x"),
        ("transaction.timeout.ms", 1_000),
        ("retries", 0),
        ("message.send.max.retries", 3),
        ("queue.buffering.max.messages", 10),
        ("queue.buffering.max.kbytes", 10),
        ("bootstrap.servers", "x:1"),
        ("metadata.broker.list", "x:1"),
        ("delivery.report.only.error", True),
        ("on_delivery", print),
        ("default.topic.config", {"acks": 0}),
        ("no.such.setting", 1),
        ("compression.type", "brotli"),
        ("linger.ms", "soon"),
        ("group.id", "x"),
        ("ssl.ca.location", "/no/such/file"),
        (7, 1),
        ("error_cb", 7),
        ("oauth_cb", "x"),
        ("logger", "x"),
        ("test.mock.num.brokers", 1),
        ("topic.blacklist", "t"),
        ("client.id", "a\ud800"),
    ],
)
def test_what_breaks_a_promise_or_is_unknown_is_refused_by_name(name: Any, value: Any) -> None:
    protocol = {"security.protocol": "SSL"} if str(name).startswith("ssl") else {}
    with pytest.raises(InvalidSetting, match=r"^kafka: ") as caught:
        CheckpointPublisher(NOBODY, kafka={name: value, **protocol})
    aliases = {"linger.ms": "queue.buffering.max.ms", "compression.type": "compression.codec"}
    assert str(name) in str(caught.value) or aliases[name] in str(caught.value)


@pytest.mark.parametrize(
    "kafka",
    [
        {"acks": "all", "enable.idempotence": "true", "partitioner": "murmur2_random"},
        {"acks": -1, "max.in.flight": 1, "message.max.bytes": 20_000_000},
        {"client.id": "x", "compression.type": "lz4", "linger.ms": 0, "delivery.timeout.ms": 60_000},
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": SECRET},
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "u",
            "sasl.password": "p",
        },
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", "oauth_cb": lambda _: ("t", 0)},
        {"error_cb": print, "stats_cb": print, "statistics.interval.ms": 100, "logger": logging.getLogger("x")},
    ],
)
def test_the_rest_is_passed_on(kafka: Mapping[str, Any]) -> None:
    made = settings(**{name.replace(".", "__"): value for name, value in kafka.items()}).for_producer(print)
    passed = {name: value for name, value in kafka.items() if not name.endswith("_cb")}
    assert passed.items() <= made.items()


def test_the_defaults_keep_the_promises() -> None:
    made = settings().for_producer(print)
    assert made["bootstrap.servers"] == "a:1,b"
    assert (made["acks"], made["enable.idempotence"], made["partitioner"]) == ("all", True, "murmur2_random")
    assert (made["compression.type"], made["linger.ms"], made["message.max.bytes"]) == ("zstd", 5, 17_825_792)


@pytest.mark.parametrize("servers", ["", "a b:1", "a:port", "a:1,,b:2", "a:1:2", 7, None])
def test_servers_are_checked(servers: Any) -> None:
    with pytest.raises(InvalidSetting, match="bootstrap_servers"):
        CheckpointPublisher(servers)


def test_a_spool_that_can_be_none_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for spool, named in ((file, "found a file"), ("", "path of a folder"), (3, "path of a folder")):
        with pytest.raises(InvalidSetting, match=named):
            CheckpointPublisher(NOBODY, spool=spool)  # type: ignore[arg-type]
    for options, named in (({"limit_bytes": 1_000}, "limit_bytes"), ({"fsync": 1}, "fsync")):
        with pytest.raises(InvalidSetting, match=named):
            Spool(tmp_path, **options)  # type: ignore[arg-type]


def test_no_secret_is_shown(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    kafka = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
        "sasl.password": SECRET,
    }
    with caplog.at_level(logging.DEBUG):
        publisher = make(NOBODY, kafka={**kafka, "debug": "all", "log_level": 7})
        publisher.publish(created())
        wait_until(lambda: "Connection refused" in caplog.text)
        publisher.close(0)
    shown = [repr(publisher), str(publisher), repr(publisher._settings), repr(publisher.stats()), caplog.text]
    assert not any(SECRET in text for text in shown)


def test_no_secret_is_in_an_error() -> None:
    pem: dict[str, object] = {"security.protocol": "SSL", "ssl.key.pem": SECRET, "ssl.key.password": SECRET}
    for kafka in (pem, {"sasl.password": SECRET, "nope": 1}, {"sasl.oauthbearer.config": SECRET, "linger.ms": SECRET}):
        with pytest.raises(InvalidSetting) as caught:
            CheckpointPublisher(NOBODY, kafka=kafka)  # type: ignore[arg-type]
        assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_making_one_opens_nothing_and_starts_nothing(make: Make) -> None:
    def tasks() -> int:
        return len(list(Path("/proc/self/task").iterdir()))

    def sockets() -> int:
        return sum(1 for each in Path("/proc/self/fd").iterdir() if _target(each).startswith("socket:"))

    make(NOBODY).close()
    before = tasks(), sockets()
    publisher = make("no.such.host.example:9092")
    wait_until(lambda: tasks() <= before[0])  # librdkafka's check of the settings has ended
    assert sockets() <= before[1]
    publisher.close()


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""


def test_callbacks_of_the_user_are_called_and_may_raise(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    heard: list[str] = []

    def error_cb(error: object) -> None:
        heard.append("error")
        raise ValueError("in error_cb")

    def stats_cb(text: str) -> None:
        heard.append("stats")
        raise ValueError("in stats_cb")

    publisher = make(NOBODY, kafka={"error_cb": error_cb, "stats_cb": stats_cb, "statistics.interval.ms": 20})
    publisher.publish(created())
    wait_until(lambda: {"error", "stats"} <= set(heard))
    wait_until(lambda: "ValueError: in stats_cb" in caplog.text and "ValueError: in error_cb" in caplog.text)
    assert publisher.stats().under_way == 1


def test_an_oauth_token_that_is_long_in_coming_holds_no_publish(make: Make) -> None:
    release, asked = threading.Event(), threading.Event()

    def token(_: str) -> tuple[str, float]:
        asked.set()
        release.wait(15)
        return "token", 4_000_000_000.0

    kafka = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", "oauth_cb": token}
    publisher = make(NOBODY, kafka=kafka)
    assert not asked.is_set()
    receipts = [publisher.publish(created(number)) for number in range(10)]
    assert asked.wait(15)
    assert not any(receipt.done() for receipt in receipts)
    release.set()


def test_a_server_with_a_password_in_it_is_refused_and_not_shown() -> None:
    with pytest.raises(InvalidSetting, match=r"^bootstrap_servers: ") as caught:
        CheckpointPublisher(f"user:{SECRET}@host:9092")
    assert SECRET not in str(caught.value)
