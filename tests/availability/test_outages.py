"""A server away for a while: one line when it begins, one when it is over, not ready meanwhile, and on from where it was."""

from __future__ import annotations

import logging
from contextlib import closing

import psycopg
import pytest

from milepost.consumer import silence, sweeping, watch
from milepost.consumer.backoff import Backoff
from milepost.consumer.observe import probe
from milepost.consumer.observe.observatory import Observatory
from milepost.consumer.policies import PolicyRow, set_policy
from milepost.schemas import KafkaUnavailable
from tests.availability.running import Lines, Running, config, offsets, publish
from tests.fixtures.commands import wait_until
from tests.fixtures.proxy import KafkaProxy, PostgresProxy
from tests.observe.scraping import Pages


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "EVERY_SECONDS", 0.1)
    monkeypatch.setattr(probe, "SILENCE_SECONDS", 1.0)
    monkeypatch.setattr(watch, "_EVERY_SECONDS", 0.2)
    monkeypatch.setattr(watch, "_ANSWER_SECONDS", 0.5)
    monkeypatch.setattr(silence, "TELL_SECONDS", 1.0)


def test_both_servers_go_and_come_back(
    kafka_servers: str,
    topic: str,
    kafka_proxy: KafkaProxy,
    postgres_proxy: PostgresProxy,
    lines: Lines,
) -> None:
    proxied = config(kafka_proxy.servers, topic, postgres_proxy.database)
    with closing(Observatory("127.0.0.1:0", 1, 60.0)) as observatory:
        page = Pages(lines.wait_for("http_started", 1).port)
        assert page.ready() == (503, ["the consumer is checking the log and the view"])
        assert page.get("/healthz")[0] == 200
        with Running(proxied, board=observatory.board) as worker:
            observatory.begin(proxied, worker.task.log)
            page.wait_until_ready()
            postgres_proxy.refuse()
            publish(kafka_servers, topic, "s")
            page.wait_for_reason("Postgres at 127.0.0.1")
            assert page.samples()["milepost_server_up", "postgres"] == 0
            assert lines.wait_for("server_away", 1).server == "postgres"
            wait_until(lambda: worker.counted("milepost_unavailable_total", "postgres") >= 4, "some attempts")
            wait_until(lambda: page.samples().get(("milepost_lag_records", partition_behind(page)), 0) == 1, "the lag")
            postgres_proxy.accept()
            assert lines.wait_for("server_back", 1).server == "postgres"
            worker.wait_for_events(1)
            page.wait_until_ready()
            kafka_proxy.refuse()
            away = lines.wait_for("server_away", 2)
            assert (away.server, away.levelno) == ("kafka", logging.WARNING)
            assert "Connection refused" in away.getMessage() or "Disconnected" in away.getMessage()
            page.wait_for_reason("afka")
            publish(kafka_servers, topic, "s")
            assert page.get("/healthz")[0] == 200
            kafka_proxy.accept()
            worker.wait_for_events(2)
            assert lines.wait_for("server_back", 2).server == "kafka"
            page.wait_until_ready()
            found = page.samples()
    assert found["milepost_reconnects_total", "postgres"] == found["milepost_reconnects_total", "kafka"] == 1
    assert len(lines.of("server_away")) == len(lines.of("server_back")) == 2


def partition_behind(page: Pages) -> str:
    """The partition that has something to read."""
    ends = {label: value for (name, label), value in page.samples().items() if name == "milepost_log_end_offset"}
    return max(ends, key=lambda label: ends[label])


def test_a_server_that_says_nothing_is_away(
    kafka_servers: str, topic: str, postgres_proxy: PostgresProxy, lines: Lines
) -> None:
    proxied = config(kafka_servers, topic, postgres_proxy.database)
    with closing(Observatory("127.0.0.1:0", 1, 3.0)) as observatory:
        page = Pages(lines.wait_for("http_started", 1).port)
        with Running(proxied, board=observatory.board) as worker:
            observatory.begin(proxied, worker.task.log)
            page.wait_until_ready()
            postgres_proxy.stall()
            publish(kafka_servers, topic, "s")
            page.wait_for_reason("postgres has not answered for")
            # the worker waits for an answer, too, and says so: nobody has to kill it
            assert lines.wait_for("server_away", 1).server == "postgres"
            wait_until(lambda: observatory.board.workers()[0].silence < 0.5, "a word of the worker")
            assert page.get("/healthz")[0] == 200
            postgres_proxy.resume()
            worker.wait_for_events(1)
            page.wait_until_ready()


def test_a_sweep_that_fails_holds_nobody_up(
    kafka_servers: str, topic: str, database: str, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping, "_PAUSE", Backoff(0.1, 0.2))
    with psycopg.connect(database, autocommit=True) as operator:
        operator.execute(
            "create function public.keep() returns trigger language plpgsql as "
            "$$ begin raise exception 'kept' using errcode = 'P0001'; end $$"
        )
        with Running(config(kafka_servers, topic, database)) as worker:
            worker.wait_until_reading()
            publish(kafka_servers, topic, *["s"] * 5)
            worker.wait_for_events(5)
            operator.execute(
                "create trigger keep before delete on milepost.checkpoints for each row execute function public.keep()"
            )
            set_policy(operator, PolicyRow(None, None, 2, None, None))
            publish(kafka_servers, topic, "t")
            lines.wait_for("sweep_failed", 2)
            publish(kafka_servers, topic, "t")
            worker.wait_for_events(7)
            operator.execute("drop trigger keep on milepost.checkpoints")
            wait_until(lambda: worker.counted("milepost_states_pruned_total") == 3, "the sweep")
        assert operator.execute("select count(*) from milepost.checkpoints where session_id = 's'").fetchone() == (2,)
    assert sum(offsets(database).values()) == 7


def test_a_doubt_that_is_not_settled_commits_nothing(
    kafka_servers: str, topic: str, database: str, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle = watch.LogWatch.settle
    failures = [KafkaUnavailable("no answer about the topic"), KafkaUnavailable("no answer about the topic")]
    stood: list[int] = []

    def failing(self: watch.LogWatch) -> None:
        settle(self)
        stood.append(sum(offsets(database).values()))
        if failures:
            raise failures.pop()

    monkeypatch.setattr(watch.LogWatch, "settle", failing)
    with Running(config(kafka_servers, topic, database)) as worker:
        worker.wait_until_reading()
        publish(kafka_servers, topic, "s")
        worker.wait_for_events(1)
        assert lines.wait_for("server_back", 1).server == "kafka"
        assert worker.counted("milepost_unavailable_total", "kafka") == 2
    assert stood == [0, 0, 0]
    assert sum(offsets(database).values()) == 1
