"""What stands around us and is none of ours: encodings, styles, roles, other partitioners, servers that hang."""

from __future__ import annotations

import json
import os
import signal
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from confluent_kafka import Producer
from psycopg import conninfo, sql

from milepost.consumer import CheckpointStore, kafka
from milepost.consumer.database import connect
from milepost.consumer.log import find
from milepost.consumer.materializer import become_writer
from milepost.embedded import Stack
from milepost.schemas import CheckpointCreated, WrongView, encode
from tests.fixtures.commands import COMMAND, Milepost, stop, wait_until
from tests.fixtures.publishing import produce

STATE = '{"ü":"zażółć 😀","łódź":"東京"}'.encode()


@pytest.mark.parametrize("encoding", ["LATIN1", "WIN1252", "SQL_ASCII"])
def test_another_client_encoding_changes_no_byte(
    milepost: Milepost, kafka_servers: str, topic: str, database: str, encoding: str
) -> None:
    name = conninfo.conninfo_to_dict(database)["dbname"]
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            sql.SQL("alter database {} set client_encoding = {}").format(
                sql.Identifier(str(name)), sql.Literal(encoding)
            )
        )
    milepost.environment["PGCLIENTENCODING"] = encoding
    produce(
        kafka_servers, topic, [CheckpointCreated(tenant_id="acme", session_id="łódź", checkpoint_id="ł", state=STATE)]
    )
    milepost.run("consume", "--until-caught-up")
    assert milepost.run("get", "acme", "łódź", "ł") == STATE
    assert json.loads(milepost.run("history", "acme", "łódź", "--json"))[0]["checkpoint_id"] == "ł"
    with CheckpointStore(database) as store:
        assert [info.checkpoint_id for info in store.list("acme", "łódź")] == ["ł"]


def test_another_date_style_and_time_zone(milepost: Milepost, database: str) -> None:
    milepost.run("publish", "acme", "s", stdin=b"1")
    milepost.run("consume", "--until-caught-up")
    expected = json.loads(milepost.run("status", "--json"))
    name = str(conninfo.conninfo_to_dict(database)["dbname"])
    with psycopg.connect(database, autocommit=True) as connection:
        for setting, value in (
            ("datestyle", "SQL, MDY"),
            ("timezone", "Asia/Tokyo"),
            ("intervalstyle", "sql_standard"),
        ):
            connection.execute(
                sql.SQL("alter database {} set {} = {}").format(
                    sql.Identifier(name), sql.Identifier(setting), sql.Literal(value)
                )
            )
    found = json.loads(milepost.run("status", "--json"))
    assert [row["next_offset"] for row in found["partitions"]] == [row["next_offset"] for row in expected["partitions"]]
    milepost.run("history", "acme", "s")
    milepost.run("retention", "set", "--newest", "3", "--max-age", "5")
    assert json.loads(milepost.run("retention", "show", "--json"))[0]["max_age_seconds"] == 5.0


def test_events_in_a_partition_that_their_key_does_not_go_to(
    milepost: Milepost, kafka_servers: str, topic: str, database: str, tmp_path: Path
) -> None:
    producer = Producer({"bootstrap.servers": kafka_servers})
    right = 0
    for number in range(400):
        event = encode(
            CheckpointCreated(tenant_id="acme", session_id=f"s{number % 5}", state=b"1"), source="/runtimes/other"
        )
        producer.produce(topic, event.value, event.key, headers=event.headers, partition=number % 4)
    producer.flush(30)
    with milepost.running("consume", "--processes", "2", log=tmp_path / "log") as process:
        wait_until(lambda: json.loads(milepost.run("status", "--json"))["lag"] == 0, "the end of the log")
        assert stop(process) == 0
    status = json.loads(milepost.run("status", "--json"))
    with psycopg.connect(database) as connection:
        row = connection.execute(
            "select count(distinct (session_id, partition)), count(*) from milepost.history"
        ).fetchone()
        reasons = connection.execute("select distinct reason from milepost.quarantine").fetchall()
    assert row is not None
    right = row[1]
    assert row[0] == 5
    assert reasons == [("wrong_partition",)]
    assert (status["applied"], status["quarantined"]) == (right, 400 - right)
    assert right > 0


def test_setup_leaves_no_topic_where_the_database_is_refused(
    kafka_servers: str, database: str, other_database: str
) -> None:
    def refused(place: str, said: str) -> None:
        topic = f"test.{uuid.uuid4().hex[:12]}"
        command = Milepost({"MILEPOST_KAFKA": kafka_servers, "MILEPOST_TOPIC": topic, "MILEPOST_DATABASE": place})
        done = command.result("setup")
        assert (done.returncode, said in done.stderr.decode()) == (3, True), done.stderr
        assert find(kafka.admin(kafka_servers), kafka_servers, topic) is None

    with psycopg.connect(database) as connection:
        connection.execute("insert into milepost.migrations values (9999, 'from_tomorrow', '\\x00')")
    refused(database, "upgrade milepost")
    with psycopg.connect(other_database) as connection:
        connection.execute(
            "insert into milepost.partitions (partition, cluster_id, topic, topic_id) values (0, 'c', 'lost.log', 'i')"
        )
    refused(other_database, "a new one would not be that log")


@pytest.fixture
def login(postgres_conninfo: str) -> Iterator[str]:
    """A role that may log in and nothing else; its password is its name."""
    name = f"login_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(postgres_conninfo, autocommit=True) as connection:
        connection.execute(sql.SQL("create role {} login password {}").format(sql.Identifier(name), sql.Literal(name)))
        yield name
        connection.execute(sql.SQL("drop owned by {}").format(sql.Identifier(name)))
        connection.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))


def as_login(database: str, login: str) -> str:
    return conninfo.make_conninfo(database, user=login, password=login)


def test_an_owner_who_is_no_superuser_sets_up_and_consumes(
    kafka_servers: str, topic: str, empty_database: str, login: str
) -> None:
    name = str(conninfo.conninfo_to_dict(empty_database)["dbname"])
    with psycopg.connect(empty_database, autocommit=True) as connection:
        connection.execute(sql.SQL("alter database {} owner to {}").format(sql.Identifier(name), sql.Identifier(login)))
    owner = as_login(empty_database, login)
    command = Milepost({"MILEPOST_KAFKA": kafka_servers, "MILEPOST_TOPIC": topic, "MILEPOST_DATABASE": owner})
    command.run("setup")
    produce(kafka_servers, topic, [CheckpointCreated(tenant_id="acme", session_id="s", state=STATE)])
    command.run("consume", "--until-caught-up")
    assert command.run("get", "acme", "s") == STATE
    with psycopg.connect(empty_database, autocommit=True) as connection:
        connection.execute(sql.SQL("alter database {} owner to postgres").format(sql.Identifier(name)))
        connection.execute(sql.SQL("reassign owned by {} to postgres").format(sql.Identifier(login)))


def test_grants_that_were_lost_come_back_with_setup(milepost: Milepost, database: str, login: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("revoke all on schema milepost from milepost_reader, milepost_writer")
        connection.execute(sql.SQL("grant milepost_reader to {}").format(sql.Identifier(login)))
    milepost.run("publish", "acme", "s", stdin=b"1")
    reader = Milepost({**milepost.environment, "MILEPOST_DATABASE": as_login(database, login)})
    assert reader.result("get", "acme", "s").returncode == 3
    milepost.run("setup")
    milepost.run("consume", "--until-caught-up")
    assert reader.run("get", "acme", "s") == b"1"


def test_a_reader_cannot_consume_and_is_told_why(milepost: Milepost, database: str, login: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(sql.SQL("grant milepost_reader to {}").format(sql.Identifier(login)))
    done = Milepost({**milepost.environment, "MILEPOST_DATABASE": as_login(database, login)}).result("consume")
    assert done.returncode == 3
    assert b"Traceback" not in done.stderr


def test_the_writer_cannot_change_history(milepost: Milepost, database: str) -> None:
    milepost.run("publish", "acme", "s", stdin=b"1")
    milepost.run("consume", "--until-caught-up")
    for statement in (
        "update milepost.history set seq = 2",
        "delete from milepost.history",
        "truncate milepost.history",
    ):
        with psycopg.connect(database) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("set role milepost_writer")
            connection.execute(statement)
        with psycopg.connect(database) as connection, pytest.raises(psycopg.errors.RestrictViolation):
            connection.execute(statement)


def test_a_policy_that_is_not_committed_yet_is_not_missed(
    milepost: Milepost, kafka_servers: str, topic: str, tmp_path: Path, database: str
) -> None:
    def live() -> int:
        return len(json.loads(milepost.run("list", "pol", "s", "--json")))

    produce(kafka_servers, topic, [CheckpointCreated(tenant_id="pol", session_id="s", state=b"1") for _ in range(10)])
    with milepost.running("consume", log=tmp_path / "log") as process:
        wait_until(lambda: live() == 10, "the first ten")
        with psycopg.connect(database) as connection:
            connection.execute("insert into milepost.retention_policies (tenant_id, newest) values ('pol', 3)")
            produce(kafka_servers, topic, [CheckpointCreated(tenant_id="other", session_id="s", state=b"1")])
            wait_until(lambda: len(json.loads(milepost.run("list", "other", "s", "--json"))) == 1, "another event")
        produce(kafka_servers, topic, [CheckpointCreated(tenant_id="other", session_id="s", state=b"1")])
        wait_until(lambda: live() == 3, "the policy to hold")
        assert stop(process) == 0


def test_output_that_cannot_be_written(milepost: Milepost) -> None:
    milepost.run("publish", "acme", "s", stdin=b"1")
    milepost.run("consume", "--until-caught-up")
    for arguments in (("get", "acme", "s"), ("history", "acme", "s"), ("history", "acme", "s", "--json")):
        shell = f"{COMMAND} {' '.join(arguments)} > /dev/full"
        assert os.waitstatus_to_exitcode(os.system(f"env {environment(milepost)} {shell} 2>/dev/null")) == 3


def environment(command: Milepost) -> str:
    names = ("MILEPOST_KAFKA", "MILEPOST_TOPIC", "MILEPOST_DATABASE")
    return " ".join(f"{name}='{command.environment[name]}'" for name in names)


def test_part_of_a_password_is_never_shown() -> None:
    done = Milepost({"MILEPOST_KAFKA": "127.0.0.1:1"}).result(
        "status", "--database", "postgresql://u:p@ss@127.0.0.1:1/x"
    )
    assert done.returncode == 2
    assert b"%40" in done.stderr
    assert b"ss@" not in done.stderr


def test_a_role_that_cannot_pass_row_level_security_is_refused(database: str, login: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(sql.SQL("grant milepost_reader to {}").format(sql.Identifier(login)))
    with (
        closing(connect(as_login(database, login))) as connection,
        pytest.raises(WrongView, match="row-level security"),
    ):
        become_writer(connection)


def test_a_stop_is_heard_while_the_broker_hangs(empty_database: str, tmp_path: Path) -> None:
    stack = Stack(tmp_path / "stack")
    stack.up()
    try:
        variables = {**stack.environment(), "MILEPOST_DATABASE": empty_database}
        command = Milepost(variables)
        command.run("setup", "--partitions", "2")
        command.run("publish", "acme", "s", stdin=b"1")
        with command.running("consume", log=tmp_path / "log") as process:
            wait_until(lambda: command.result("get", "acme", "s").returncode == 0, "the checkpoint")
            stack.kill("kafka", signal.SIGSTOP)
            assert stop(process) == 0
            stack.kill("kafka", signal.SIGCONT)
    finally:
        stack.destroy()
