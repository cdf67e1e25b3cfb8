"""The courier when what it rests on breaks: it goes on, and says so in a measured way."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from milepost.producer.delivery import link
from tests.producer.conftest import Make
from tests.producer.helpers import created, read_log, steps


def test_a_producer_that_cannot_be_made_is_tried_again(
    make: Make, kafka_servers: str, topic: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    left = [KafkaException(KafkaError(KafkaError._FAIL, "no more threads")), RuntimeError("something else")]
    real = Producer

    def failing(config: dict[str, Any]) -> Any:
        if left:
            raise left.pop(0)
        return real(config)

    publisher = make(kafka_servers, topic=topic)
    monkeypatch.setattr(link, "Producer", failing)
    for number in range(50):
        publisher.publish(created(number))
    assert publisher.flush(30) == 0
    assert not left
    assert steps(read_log(kafka_servers, topic), b"t/s") == list(range(50))
    assert "no more threads" in caplog.text


def test_a_round_that_fails_loses_nothing_and_keeps_no_processor_busy(
    make: Make, kafka_servers: str, topic: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    calls = [0]
    real = link.Link.hand_over

    def failing(self: link.Link) -> None:
        calls[0] += 1
        if calls[0] <= 4:
            raise ValueError("broken on purpose")
        real(self)

    monkeypatch.setattr(link.Link, "hand_over", failing)
    publisher = make(kafka_servers, topic=topic)
    with caplog.at_level(logging.ERROR):
        for number in range(50):
            publisher.publish(created(number))
        assert publisher.flush(30) == 0
    assert steps(read_log(kafka_servers, topic), b"t/s") == list(range(50))
    assert caplog.text.count("ValueError: broken on purpose") == 1


def test_a_thread_that_cannot_be_had_is_asked_for_again(
    make: Make, kafka_servers: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher = make(kafka_servers, topic=topic)

    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        first = publisher.publish(created(0))
        assert not first.done()
    publisher.publish(created(1)).result(30)
    assert first.result(0).offset == 0


def test_a_thread_that_is_never_had_is_reported_at_close(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    publisher = make("127.0.0.1:1")
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", lambda _: (_ for _ in ()).throw(RuntimeError("no thread")))
        receipt = publisher.publish(created(0))
        publisher.close(0)
    assert publisher.stats().failed_by_reason == {"closed": 1}
    assert receipt.done()
