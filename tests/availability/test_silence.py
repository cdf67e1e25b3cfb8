"""A COMMIT that gets no answer, from a server that lives: as where a synchronous standby is gone. No keepalive ends that wait."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from milepost.consumer import silence
from milepost.consumer.silence import Patience
from milepost.schemas import DatabaseUnavailable
from tests.availability.running import Lines, Running, config, offsets, publish
from tests.fixtures.commands import Milepost, wait_until
from tests.fixtures.proxy import PostgresProxy


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silence, "TELL_SECONDS", 0.5)
    monkeypatch.setattr(silence, "STOP_SECONDS", 0.5)


def test_it_is_told_and_work_goes_on_with_the_answer(
    kafka_servers: str, topic: str, database: str, postgres_proxy: PostgresProxy, lines: Lines
) -> None:
    with Running(config(kafka_servers, topic, postgres_proxy.database)) as worker:
        worker.wait_until_reading()
        point = postgres_proxy.at_commit("hold")
        publish(kafka_servers, topic, "s")
        away = lines.wait_for("server_away", 1)
        assert "Postgres has not answered for" in away.getMessage()
        wait_until(lambda: (state := worker.state) is not None and "postgres" in state.away, "not ready")
        point.release()
        worker.wait_for_events(1)
        assert lines.wait_for("server_back", 1).server == "postgres"
    assert sum(offsets(database).values()) == 1


def test_who_is_told_to_stop_does_not_wait_for_it(
    kafka_servers: str, topic: str, database: str, postgres_proxy: PostgresProxy
) -> None:
    with Running(config(kafka_servers, topic, postgres_proxy.database)) as worker:
        worker.wait_until_reading()
        point = postgres_proxy.at_commit("hold")
        publish(kafka_servers, topic, "s")
        assert point.reached.wait(20)
    assert sum(offsets(database).values()) == 0
    point.release(sends=False)
    with Running(config(kafka_servers, topic, database)) as worker:
        worker.wait_for_events(1)


def test_in_the_end_it_is_given_up_and_the_position_decides(
    kafka_servers: str, topic: str, database: str, postgres_proxy: PostgresProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(silence, "GIVE_UP_SECONDS", 1.0)
    with Running(config(kafka_servers, topic, postgres_proxy.database)) as worker:
        worker.wait_until_reading()
        point = postgres_proxy.at_commit("hold")
        publish(kafka_servers, topic, "s")
        assert point.reached.wait(20)
        worker.wait_for_events(1)
        assert worker.counted("milepost_unavailable_total", "postgres") >= 2
    assert sum(offsets(database).values()) == 1


def test_a_replay_that_is_told_to_stop_does_not_wait_for_it(
    milepost: Milepost, kafka_servers: str, topic: str, empty_database: str, tmp_path: Path
) -> None:
    publish(kafka_servers, topic, *["s"] * 20)
    proxy = PostgresProxy(empty_database)
    try:
        milepost.run("setup", "--topic", topic, "--partitions", "4", "--database", empty_database)
        point = proxy.at_commit("hold", statement=b"COPY")
        log = tmp_path / "log"
        with milepost.running("replay", "--topic", topic, "--into", proxy.database, log=log) as process:
            assert point.reached.wait(60)
            process.send_signal(signal.SIGTERM)
            began = time.monotonic()
            assert process.wait(30) == 3, log.read_text()
            assert time.monotonic() - began < 20
    finally:
        proxy.close()


def test_patience() -> None:
    told: list[float] = []
    passes: list[None] = []
    stopped: list[bool] = []
    patience = Patience(lambda: bool(stopped), told.append, lambda: passes.append(None))
    for seconds in (0.1, 0.4, 0.5, 329.9):
        patience(seconds)
    assert (told, len(passes)) == ([0.5, 329.9], 4)
    with pytest.raises(DatabaseUnavailable, match=r"has not answered for 330 s$"):
        patience(330.0)
    stopped.append(True)
    patience(1.0)

    def is_over() -> bool:
        patience(2.0)
        return False

    with pytest.raises(DatabaseUnavailable, match="stopped without its answer"):
        wait_until(is_over, "the end of patience", 5)
