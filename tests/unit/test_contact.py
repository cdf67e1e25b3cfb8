"""A client is lost when it has known no broker for a while."""

from __future__ import annotations

import time

import msgspec
import pytest

from milepost.consumer.contact import LOST_SECONDS, Contact
from milepost.consumer.statistics import Statistics, decode


def statistics(*states: str) -> Statistics:
    """As librdkafka writes it, with some of what else stands there."""
    brokers = {f"b:{number}/{number}": {"state": state, "nodeid": number} for number, state in enumerate(states)}
    return decode(msgspec.json.encode({"name": "x", "brokers": brokers, "topics": {}}).decode())


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize("states", [(), ("INIT",), ("DOWN", "CONNECT"), ("INIT", "TRY_CONNECT", "APIVERSION_QUERY")])
def test_it_is_lost_after_a_while_without_a_broker(clock: list[float], states: tuple[str, ...]) -> None:
    contact = Contact()
    contact.see(statistics("UP"))
    contact.see(statistics(*states))
    assert not contact.is_lost
    clock[0] += LOST_SECONDS
    contact.see(statistics(*states))
    assert not contact.is_lost
    clock[0] += 0.1
    assert contact.is_lost


def test_a_broker_that_is_up_ends_it(clock: list[float]) -> None:
    contact = Contact()
    contact.see(statistics("INIT", "UP"))
    contact.see(statistics("INIT", "DOWN"))
    clock[0] += 2 * LOST_SECONDS
    contact.see(statistics("INIT", "UP"))
    assert not contact.is_lost
    contact.see(statistics("INIT", "INIT"))
    clock[0] += LOST_SECONDS
    assert not contact.is_lost


def test_one_that_takes_long_to_find_the_first_is_not_lost(clock: list[float]) -> None:
    contact = Contact()
    for _ in range(10):
        contact.see(statistics("INIT", "CONNECT"))
        clock[0] += LOST_SECONDS
        assert not contact.is_lost
