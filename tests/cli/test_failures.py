"""Bad input: one line that says what was expected, what was found and what to do; the right exit status; nothing applied."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from milepost.consumer import kafka
from milepost.consumer.database import connect
from milepost.consumer.log import create_topic
from milepost.schemas.wire import TOPIC_CONFIG
from tests.fixtures.commands import Milepost
from tests.fixtures.servers import with_dbname


@pytest.fixture
def nowhere() -> Iterator[str]:
    """An address at which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def line(command: Milepost, *arguments: str, expect: int, stdin: bytes = b"{}") -> str:
    """The one line on standard error of a command that fails."""
    done = command.result(*arguments, stdin=stdin)
    text = done.stderr.decode()
    assert done.returncode == expect, (done.returncode, text)
    assert "Traceback" not in text
    assert done.stdout == b""
    lines = [one for one in text.splitlines() if one.startswith(("milepost:", "Error:"))]
    assert len(lines) == 1, text
    return lines[0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("publish", "no tenant", "s"),
            "tenant_id: expected 1 to 128 characters of A-Z a-z 0-9 . _ -, found 'no tenant'",
        ),
        (("publish", "", "s"), "tenant_id: expected 1 to 128 characters"),
        (("publish", "a/b", "c"), "tenant_id: expected 1 to 128 characters"),
        (("publish", "t" * 129, "s"), "tenant_id: expected 1 to 128 characters"),
        (("publish", "acme", ""), "session_id: expected 1 to 512 characters, found 0"),
        (("publish", "acme", "s" * 513), "session_id: expected 1 to 512 characters, found 513"),
        (("publish", "acme", "/s"), "session_id: expected no / at the start"),
        (("publish", "acme", "a\nb"), "session_id: expected printable characters only, found U+000A at character 1"),
        (
            ("publish", "acme", "s", "--checkpoint-id", "c" * 513),
            "checkpoint_id: expected 1 to 512 characters, found 513",
        ),
        (("publish", "acme", "s", "--parent-id", "/p"), "parent_id: expected no / at the start"),
        (("publish", "acme", "s", "--run-id", "7"), "expected a UUID, found '7'"),
        (("publish", "acme", "s", "--label", "novalue"), "expected KEY=VALUE, found 'novalue'"),
        (("publish", "acme", "s", "--step", "-1"), "-1 is not in the range x>=0"),
        (("delete-session", "acme", "/s"), "session_id: expected no / at the start"),
        (("list-run", "acme", "7"), "expected a UUID, found '7'"),
        (("setup", "--retain", "0"), "0 is not in the range x>=1"),
        (("setup", "--partitions", "0"), "0 is not in the range"),
        (("retention", "set", "--newest", "0"), "0 is not in the range x>=1"),
        (("retention", "set", "--newest", "5", "--session", "s"), "session: expected a tenant beside it"),
        (("consume", "--processes", "0"), "0 is not in the range"),
    ],
)
def test_wrong_usage(milepost: Milepost, arguments: tuple[str, ...], said: str) -> None:
    assert said in line(milepost, *arguments, expect=2)


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (b"", "state: "),
        (b"NaN", "expected a value, found NaN"),
        (b'{"a":1,}', "state: at byte 7 (line 1, column 8)"),
        (b'"\xff"', "UTF-8"),
    ],
)
def test_a_state_that_is_no_json(milepost: Milepost, state: bytes, said: str) -> None:
    assert said in line(milepost, "publish", "acme", "s", expect=2, stdin=state)


def test_a_state_over_the_limit_names_both_numbers(milepost: Milepost, tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_bytes(b'"' + b"x" * (16 * 1024 * 1024 - 1) + b'"')
    said = line(milepost, "publish", "acme", "s", "--state", str(path), expect=2)
    assert "16777216" in said.replace(",", "")
    assert "16777217" in said.replace(",", "")


def test_unreachable_kafka(milepost: Milepost, nowhere: str) -> None:
    commands = (
        ("consume", "--kafka", nowhere),
        ("status", "--kafka", nowhere),
        ("setup", "--kafka", nowhere),
        ("publish", "acme", "s", "--kafka", nowhere, "--timeout", "1"),
    )
    # at once, for each waits ten seconds
    with ThreadPoolExecutor() as pool:
        for said in pool.map(lambda arguments: line(milepost, *arguments, expect=3), commands):
            assert nowhere in said


def test_an_address_that_is_none(milepost: Milepost) -> None:
    for arguments in (("status", "--kafka", "no host"), ("publish", "acme", "s", "--kafka", "no host")):
        assert "no host" in line(milepost, *arguments, expect=2)


def test_unreachable_postgres_and_no_password_in_what_is_said(milepost: Milepost, nowhere: str) -> None:
    database = f"postgresql://someone:hunter2@{nowhere}/milepost"
    for arguments in (
        ("consume",),
        ("status",),
        ("setup",),
        ("get", "acme", "s"),
        ("list", "acme", "s"),
        ("history", "acme", "s"),
        ("sessions", "acme"),
        ("retention", "show"),
    ):
        said = line(milepost, *arguments, "--database", database, expect=3)
        assert nowhere in said
        assert "hunter2" not in said


def test_a_text_that_is_no_conninfo(milepost: Milepost) -> None:
    said = line(milepost, "status", "--database", "password=hunter2 what", expect=2)
    assert "expected a Postgres conninfo" in said
    assert "hunter2" not in said


def test_a_wrong_password(milepost: Milepost, postgres_conninfo: str) -> None:
    host = psycopg.conninfo.conninfo_to_dict(postgres_conninfo)
    database = f"postgresql://postgres:hunter2@{host['host']}:{host['port']}/milepost"
    said = line(milepost, "status", "--database", database, expect=3)
    assert "hunter2" not in said
    assert "password authentication failed" in said


def test_a_topic_that_does_not_exist(milepost: Milepost) -> None:
    for arguments in (("consume", "--topic", "nope"), ("status", "--topic", "nope")):
        said = line(milepost, *arguments, expect=3)
        assert "nope" in said
        assert "run: milepost setup" in said or "another topic" in said
    said = line(milepost, "publish", "acme", "s", "--topic", "nope", "--timeout", "5", expect=3)
    assert "nope" in said


def test_a_database_that_does_not_exist(milepost: Milepost, postgres_conninfo: str) -> None:
    said = line(milepost, "status", "--database", with_dbname(postgres_conninfo, "nope"), expect=3)
    assert "create it, then run: milepost setup" in said


def test_a_database_without_the_schema(milepost: Milepost, empty_database: str) -> None:
    for arguments in (("consume",), ("status",), ("get", "acme", "s"), ("list", "acme", "s"), ("retention", "show")):
        said = line(milepost, *arguments, "--database", empty_database, expect=3)
        assert "milepost setup" in said


def test_a_database_of_a_newer_version(milepost: Milepost, database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("insert into milepost.migrations values (9999, 'from_tomorrow', '\\x00')")
    for arguments in (("consume",), ("status",), ("setup",), ("retention", "show")):
        said = line(milepost, *arguments, expect=3)
        assert "9999_from_tomorrow" in said
        assert "upgrade milepost" in said


def test_a_database_that_is_not_utf8(milepost: Milepost, postgres_conninfo: str) -> None:
    name = f"latin_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(postgres_conninfo, autocommit=True) as connection:
        create = "create database {} template template0 encoding 'LATIN1' locale 'C'"
        connection.execute(sql.SQL(create).format(sql.Identifier(name)))
        try:
            said = line(milepost, "setup", "--database", with_dbname(postgres_conninfo, name), expect=3)
        finally:
            connection.execute(sql.SQL("drop database {}").format(sql.Identifier(name)))
    assert "expected a database with the encoding UTF8, found LATIN1" in said


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cleanup.policy", "compact"),
        ("retention.ms", "604800000"),
        ("message.timestamp.type", "CreateTime"),
        ("max.message.bytes", "1048588"),
    ],
)
def test_a_topic_whose_settings_would_break_a_promise(
    kafka_servers: str, empty_database: str, name: str, value: str
) -> None:
    topic = f"test.{uuid.uuid4().hex[:12]}"
    create_topic(kafka.admin(kafka_servers), kafka_servers, topic, 1, 1, config={**TOPIC_CONFIG, name: value})
    command = Milepost({"MILEPOST_KAFKA": kafka_servers, "MILEPOST_TOPIC": topic, "MILEPOST_DATABASE": empty_database})
    said = line(command, "setup", expect=3)
    assert f"{name}: expected" in said
    assert f"found {value}" in said
    # nothing half-applied
    with connect(empty_database) as connection:
        assert connection.execute("select to_regnamespace('milepost')").fetchone() == (None,)


def test_what_is_not_there_is_a_no(milepost: Milepost) -> None:
    assert "no live checkpoint" in line(milepost, "get", "acme", "s", expect=1)
    assert "no live checkpoint nope" in line(milepost, "get", "acme", "s", "nope", expect=1)


def test_settings_that_are_missing_are_named(kafka_servers: str) -> None:
    assert "MILEPOST_DATABASE" in line(Milepost({"MILEPOST_KAFKA": kafka_servers}), "status", expect=2)
    assert "MILEPOST_KAFKA" in line(Milepost({"MILEPOST_DATABASE": "dbname=x"}), "status", expect=2)


def test_no_command_lists_the_commands() -> None:
    done = Milepost({}).result()
    assert done.returncode in (0, 2)
    text = (done.stdout + done.stderr).decode()
    for name in ("embedded", "setup", "publish", "consume", "get", "status", "retention", "quarantine"):
        assert name in text
