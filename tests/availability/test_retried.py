"""What Postgres says and what becomes of it: what passes is waited for, with one line when it begins and one when it is over."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import conninfo, sql

from milepost.consumer import materializer
from milepost.consumer.database import connect
from milepost.schemas import DatabaseUnavailable, WrongView
from tests.availability.running import Lines, Refusal, Running, config, publish
from tests.fixtures.commands import wait_until

SCARCE = ("53100",)
PASSING = ("40001", "57014", "57P01", *SCARCE)


def test_what_passes_is_retried(kafka_servers: str, topic: str, database: str, refusal: Refusal, lines: Lines) -> None:
    with Running(config(kafka_servers, topic, database)) as worker:
        worker.wait_until_reading()
        for number, state in enumerate(PASSING, 1):
            refusal.begin(state)
            publish(kafka_servers, topic, "s")
            away = lines.wait_for("server_away", number)
            assert (away.server, away.levelno) == ("postgres", logging.ERROR if state in SCARCE else logging.WARNING)
            refusal.end()
            lines.wait_for("server_back", number)
            worker.wait_for_events(number)
        assert worker.counted("milepost_reconnects_total", "postgres") == len(PASSING)
        assert worker.counted("milepost_unavailable_total", "postgres") >= len(PASSING)
        assert worker.state is not None
        assert worker.state.away == {}
    assert len(lines.of("server_away")) == len(lines.of("server_back")) == len(PASSING)
    assert lines.of("partition_stopped") == []


def test_a_lock_that_somebody_holds(
    kafka_servers: str, topic: str, database: str, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(materializer._WRITER_SETTINGS, "lock_timeout", "100ms")
    with Running(config(kafka_servers, topic, database)) as worker:
        worker.wait_until_reading()
        with psycopg.connect(database) as other:
            other.execute("lock table milepost.sessions in exclusive mode")
            publish(kafka_servers, topic, "s")
            assert "lock timeout" in lines.wait_for("server_away", 1).getMessage()
            other.rollback()
        worker.wait_for_events(1)


def test_a_deadlock(kafka_servers: str, topic: str, database: str, lines: Lines) -> None:
    with Running(config(kafka_servers, topic, database)) as worker, psycopg.connect(database) as other:
        worker.wait_until_reading()
        # the worker finds it: it looks a second after it began to wait
        other.execute("set deadlock_timeout = '20s'")
        other.execute("lock table milepost.history in exclusive mode")
        publish(kafka_servers, topic, "s")
        with psycopg.connect(database, autocommit=True) as seeing:
            wait_until(
                lambda: bool(seeing.execute("select from pg_locks where not granted").fetchone() is not None),
                "the worker waits",
            )
        waiting = threading.Thread(target=lambda: other.execute("update milepost.partitions set recorded_at = now()"))
        waiting.start()
        assert "deadlock detected" in lines.wait_for("server_away", 1).getMessage()
        waiting.join(30)
        other.rollback()
        worker.wait_for_events(1)


def test_a_server_that_is_read_only_after_a_failover(
    kafka_servers: str, topic: str, database: str, lines: Lines
) -> None:
    name = sql.Identifier(str(conninfo.conninfo_to_dict(database)["dbname"]))
    with (
        Running(config(kafka_servers, topic, database)) as worker,
        psycopg.connect(database, autocommit=True) as operator,
    ):
        worker.wait_until_reading()
        operator.execute("set default_transaction_read_only = off")
        operator.execute(sql.SQL("alter database {} set default_transaction_read_only = on").format(name))
        end_sessions(operator)
        publish(kafka_servers, topic, "s")
        lines.wait_for("server_away", 1)
        wait_until(
            lambda: (state := worker.state) is not None and "read-only" in state.away.get("postgres", ""), "the reason"
        )
        operator.execute(sql.SQL("alter database {} reset default_transaction_read_only").format(name))
        worker.wait_for_events(1)
    # once more, when it had been back for a moment before it first wrote
    assert len(lines.of("server_away")) == len(lines.of("server_back")) >= 1


def end_sessions(operator: psycopg.Connection) -> None:
    """As a server does that shuts down."""
    operator.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
    )


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("revoke insert on milepost.history from milepost_writer", "the role lacks a privilege"),
        ("alter table milepost.history rename column chain to link", "refused a statement of this version"),
    ],
)
def test_what_never_works_ends_it(kafka_servers: str, topic: str, database: str, statement: str, said: str) -> None:
    with Running(config(kafka_servers, topic, database)) as worker:
        worker.wait_until_reading()
        with psycopg.connect(database, autocommit=True) as operator:
            operator.execute(statement)
        publish(kafka_servers, topic, "s")
        error = worker.wait_for_end()
    assert isinstance(error, WrongView)
    assert said in str(error)


def test_a_password_that_was_changed_ends_it(kafka_servers: str, topic: str, database: str, login: str) -> None:
    mine = conninfo.make_conninfo(database, user=login, password=login)
    with (
        Running(config(kafka_servers, topic, mine)) as worker,
        psycopg.connect(database, autocommit=True) as operator,
    ):
        worker.wait_until_reading()
        operator.execute(sql.SQL("alter role {} password 'another'").format(sql.Identifier(login)))
        end_sessions(operator)
        publish(kafka_servers, topic, "s")
        error = worker.wait_for_end()
    assert isinstance(error, WrongView)
    assert "lets this login not in" in str(error)
    assert "password authentication failed" in str(error)


@pytest.fixture
def login(postgres_conninfo: str) -> Iterator[str]:
    """A role that may log in and write; its password is its name."""
    name = f"login_{threading.get_ident()}"
    with psycopg.connect(postgres_conninfo, autocommit=True) as connection:
        connection.execute(sql.SQL("create role {} login password {}").format(sql.Identifier(name), sql.Literal(name)))
        connection.execute(sql.SQL("grant milepost_writer to {}").format(sql.Identifier(name)))
        yield name
        connection.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))


@pytest.mark.parametrize("user", ["nobody_knows", "postgres"])
def test_a_login_that_is_refused(database: str, user: str) -> None:
    with pytest.raises(WrongView, match="lets this login not in"):
        connect(conninfo.make_conninfo(database, user=user, password="no"))


def test_a_server_that_nobody_reaches_is_away() -> None:
    with pytest.raises(DatabaseUnavailable):
        connect("host=127.0.0.1 port=1 user=u dbname=d")
