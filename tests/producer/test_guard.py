"""What comes from outside and must not end a thread: exceptions that are no `Exception`, a log that raises, endless waits."""

from __future__ import annotations

import logging
import math
import threading
import time
from uuid import uuid4

import pytest

from milepost.producer import Receipt
from milepost.producer.config import Settings
from milepost.producer.delivery import lifecycle, receipt
from milepost.producer.delivery.courier import Courier
from milepost.producer.delivery.link import Link
from milepost.producer.delivery.outbox import Outbox
from milepost.producer.delivery.reporter import Reporter
from milepost.producer.testing import MemoryPublisher
from milepost.schemas import DeliveryFailed, Position
from tests.producer.conftest import Make
from tests.producer.helpers import NOBODY, created, wait_until


def _failure(number: int) -> DeliveryFailed:
    return DeliveryFailed(uuid4(), "x", str(number))


def test_a_callback_that_raises_system_exit_is_called_again(caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []

    def call(failure: DeliveryFailed) -> None:
        told.append(failure.detail)
        raise SystemExit(1)

    reporter = Reporter("p", call)
    for number in range(3):
        reporter.failed(_failure(number))
    reporter.finish()
    wait_until(lambda: reporter._thread is None)
    assert told == ["0", "1", "2"]
    assert "on_failure raised" in caplog.text


def test_a_filter_of_the_log_that_raises_does_not_end_the_reporter(capsys: pytest.CaptureFixture[str]) -> None:
    told: list[str] = []

    def refuse(_: logging.LogRecord) -> bool:
        raise KeyError("a filter")

    logger = logging.getLogger("milepost.producer")
    logger.addFilter(refuse)
    try:
        reporter = Reporter("p", lambda failure: told.append(failure.detail))
        reporter.failed(_failure(0))
        wait_until(lambda: not reporter._unlogged and told)
        reporter.failed(_failure(1))
        reporter.finish()
        wait_until(lambda: reporter._thread is None)
    finally:
        logger.removeFilter(refuse)
    assert told == ["0", "1"]
    assert "a filter" in capsys.readouterr().err


def test_a_callback_of_librdkafka_that_raises_system_exit_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def leave(_: object) -> None:
        raise SystemExit(1)

    settings = Settings(NOBODY, topic="t", source="/x", queue_bytes=1, kafka={"error_cb": leave})
    assert settings.on_error is not None
    settings.on_error("an error")
    assert "error_cb raised" in caplog.text


def test_a_round_that_raises_system_exit_does_not_end_the_courier(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    real = Link.hand_over

    def leave(self: Link) -> None:
        calls.append(1)
        if len(calls) == 1:
            raise SystemExit(1)
        real(self)

    monkeypatch.setattr(Link, "hand_over", leave)
    publisher = make(NOBODY)
    publisher.publish(created())
    wait_until(lambda: len(calls) > 1)
    assert publisher.stats().under_way == 1


def test_all_publishers_share_the_grace_of_the_exit(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(NOBODY, topic="t", source="/x", queue_bytes=1, kafka={})
    couriers = [Courier(settings, Outbox(1_000, None)) for _ in range(10)]
    for courier in couriers:  # each has a thread that hangs
        courier.thread = threading.Thread()
    monkeypatch.setattr(lifecycle, "publishers", set())
    monkeypatch.setattr(lifecycle, "running", set(couriers))
    monkeypatch.setattr(lifecycle, "EXIT_SECONDS", 0.0)
    begin = time.monotonic()
    lifecycle._at_exit()
    assert 0.4 < time.monotonic() - begin < 2


def test_an_endless_timeout_is_a_long_one() -> None:
    late = Receipt(uuid4(), None)
    timer = threading.Timer(0.05, late.settle, [Position("t", 1, 2)])
    timer.start()
    assert late.result(math.inf) == Position("t", 1, 2)
    publisher = MemoryPublisher()
    publisher.publish(created())
    assert publisher.flush(math.inf) == 0
    publisher.close(math.inf)
    assert publisher.stats().delivered == 1


@pytest.mark.parametrize(("timeout", "kind"), [(None, TypeError), ("1", TypeError), (math.nan, ValueError)])
def test_what_is_no_time_is_refused_before_anything(timeout: float, kind: type[Exception]) -> None:
    publisher = MemoryPublisher()
    for call in (publisher.close, publisher.flush):
        with pytest.raises(kind, match=r"^timeout: "):
            call(timeout)
    assert publisher.publish(created()).result().offset == 0
    publisher.close()


def test_a_fork_renews_the_lock_of_receipts() -> None:
    before = receipt._REGISTERING
    with before:
        receipt.renew_lock()
        late = Receipt(uuid4(), None)
        with pytest.raises(TimeoutError):
            late.result(0)
    assert receipt._REGISTERING is not before
