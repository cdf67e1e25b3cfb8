"""Passwords of connection strings reach no reason, no message and no line of a log."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from psycopg import conninfo

from milepost.consumer import kafka
from milepost.consumer.database import connect, parse, shown
from milepost.consumer.materializer import Materializer
from milepost.schemas import DEFAULT_TOPIC, InvalidSetting, MilepostError
from tests.fixtures.commands import Milepost, stop, wait_until
from tests.fixtures.view import PARTITIONS, FakeLog, bind_log
from tests.quarantine.helpers import created

SECRET = "s3cr3t-Pa%ss"


def wrong(postgres_conninfo: str) -> list[str]:
    """Conninfos that fail in as many ways, each with a password."""
    found = conninfo.conninfo_to_dict(postgres_conninfo)
    host, port = found["host"], found["port"]
    quoted = SECRET.replace("%", "%25")
    return [
        f"postgresql://postgres:{quoted}@{host}:{port}/milepost",
        f"postgresql://nobody:{quoted}@{host}:{port}/milepost",
        f"postgresql://postgres:{quoted}@{host}:1/milepost",
        f"postgresql://postgres:{quoted}@no-such-host.invalid/milepost",
        f"postgresql://postgres:{SECRET}@{host}:{port}/milepost",  # % without two digits after it: no URI
        f"host={host} port={port} user=postgres password='{SECRET}' dbname=no_such_database",
        f"host={host} port=x user=postgres password='{SECRET}'",
        f"host={host} password='{SECRET}",
        f"postgres://u:{quoted}@[::1/x",
    ]


@pytest.mark.parametrize("number", range(9))
def test_what_fails_says_no_password(postgres_conninfo: str, number: int, tmp_path: Path) -> None:
    database = wrong(postgres_conninfo)[number]
    with pytest.raises(MilepostError) as raised:
        connect(database)
    text, cause = f"{raised.value!s} {raised.value!r}", raised.value.__cause__
    assert SECRET not in text
    assert SECRET not in str(cause)


@pytest.mark.parametrize(
    "command", [["get", "t", "s"], ["quarantine", "list"], ["consume"], ["status"], ["setup"]], ids=" ".join
)
def test_no_command_says_it(kafka_servers: str, topic: str, postgres_conninfo: str, command: list[str]) -> None:
    for database in (wrong(postgres_conninfo)[2], wrong(postgres_conninfo)[5], wrong(postgres_conninfo)[4]):
        milepost = Milepost({"MILEPOST_KAFKA": kafka_servers, "MILEPOST_TOPIC": topic, "MILEPOST_DATABASE": database})
        done = milepost.result("-vv", *command)
        assert done.returncode in (2, 3)
        assert done.stderr
        assert SECRET.encode() not in done.stderr + done.stdout


def test_no_reason_and_no_log_says_it(postgres_conninfo: str, database: str, caplog: pytest.LogCaptureFixture) -> None:
    """Not even when the connection is cut, nor when Postgres refuses a row."""
    password = str(conninfo.conninfo_to_dict(postgres_conninfo)["password"])
    bind_log(database)
    log, writer = FakeLog(), Materializer(database, DEFAULT_TOPIC)
    writer.take(range(PARTITIONS))
    with closing(connect(database)) as connection:
        connection.execute("alter table milepost.history add constraint unlucky check (step is distinct from 13)")
        writer.apply([log.append(created(1, step=13))])
        connection.execute("select pg_terminate_backend(%s)", [writer.connection().info.backend_pid])
        with pytest.raises(MilepostError) as raised:
            writer.apply([log.append(created(2))])
        row = connection.execute("select detail from milepost.quarantine").fetchone()
    assert row is not None and "unlucky" in row[0]
    assert password not in row[0] + str(raised.value) + str(raised.value.__cause__) + caplog.text


def test_a_consumer_at_work_does_not_say_it(
    milepost: Milepost, database: str, postgres_conninfo: str, tmp_path: Path
) -> None:
    password = str(conninfo.conninfo_to_dict(postgres_conninfo)["password"])
    cut = (
        "select count(pg_terminate_backend(pid)) from pg_stat_activity "
        "where datname = current_database() and application_name = 'milepost-consumer'"
    )
    with (
        milepost.running("-vv", "consume", log=tmp_path / "log") as process,
        psycopg.connect(database, autocommit=True) as connection,
    ):
        wait_until(lambda: "assigned" in (tmp_path / "log").read_text(), "partitions")
        wait_until(lambda: connection.execute(cut).fetchone() == (1,), "a connection to cut")
        milepost.run("publish", "t", "s", stdin=b"{}")
        wait_until(lambda: milepost.result("get", "t", "s").returncode == 0, "the state")
        assert stop(process) == 0
    lines = (tmp_path / "log").read_text()
    assert "waiting until it is back" in lines
    assert password not in lines


@pytest.mark.parametrize(
    "after",
    [
        "u:hunter2SECRET/x@h:5432/x",
        "u:12/hunter2SECRET@h/x",
        "u:/hunter2SECRET@h/x",
        "u:1,hunter2SECRET/a@h:1/x",
        "u:hunter2@SECRET@h/x",
        "u:hunter2SECRET/x",
        "u:5432/x?sslmode=hunter2SECRET@h/x",
    ],
)
def test_a_password_that_is_not_escaped(after: str) -> None:
    """libpq takes its pieces for port, database and parameters."""
    database = f"postgresql://{after}"
    assert shown(database) == "the given database"
    for call in (parse, connect):
        with pytest.raises(InvalidSetting, match=r"^database: ") as raised:
            call(database)
        assert "SECRET" not in f"{raised.value!s} {raised.value.__cause__!s}"
        assert "hunter2" not in f"{raised.value!s} {raised.value.__cause__!s}"


def test_what_is_escaped_is_a_password() -> None:
    assert parse("postgresql://u%40x:a%40b%2Fc@h:1/x")["password"] == "a@b/c"
    assert shown("postgresql://u%40x:a%40b%2Fc@h:1/x") == "h:1/x"


@pytest.mark.parametrize("servers", ["u:SECRET@host:9092", "u:SEC,RET@host:9092", "host:9092,u:SECRET@host:9092"])
def test_servers_with_a_password(servers: str) -> None:
    with pytest.raises(InvalidSetting, match=r"^kafka: expected HOST:PORT, found a text with an @$"):
        kafka.settings(servers, "test")
