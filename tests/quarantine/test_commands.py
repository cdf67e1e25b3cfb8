"""`milepost quarantine` as its users run it."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import click
import psycopg
import pytest

from milepost.consumer.cli.quarantine import a_record_id
from milepost.consumer.records import LogRecord
from milepost.schemas import CheckpointCreated, Position
from tests.fixtures.commands import Milepost, stop, wait_until
from tests.fixtures.dump import dump
from tests.fixtures.publishing import produce
from tests.fixtures.view import FakeLog, PostgresView
from tests.quarantine.helpers import created, quarantined, unknown_to_an_older_version

TOPIC = "milepost.events"
ODD_VALUE = b"\x00\xff raw \xf0\x9f\x98\x80\r\n"
ODD_HEADERS: list[tuple[str, bytes | None]] = [
    ("twice", b"1"),
    ("twice", b"2"),
    ("null", None),
    ("bytes", b"\xff\x00"),
    ("", b""),
    ("caf\u00e9", "\u202e".encode()),
]


@pytest.fixture
def filled(database: str) -> list[LogRecord]:
    """Three records in the quarantine: an odd one, one without value, and one that can be retried."""
    log = FakeLog()
    records = [
        log.append_raw(b"\xff\x00key", ODD_VALUE, ODD_HEADERS),
        log.append_raw(None, None, [("content-type", b"application/cloudevents-batch+json")]),
        unknown_to_an_older_version(log.append(created(1))),
    ]
    view = PostgresView(database)
    view.apply(records)
    view.close()
    return records


@pytest.fixture
def command(database: str) -> Milepost:
    """The command with a view, and no Kafka."""
    return Milepost({"MILEPOST_DATABASE": database})


def id_of(record: LogRecord) -> str:
    return f"{TOPIC}/{record.partition}@{record.offset}"


def test_list(command: Milepost, filled: list[LogRecord]) -> None:
    found = json.loads(command.run("quarantine", "list", "--json"))
    assert {entry["id"]: entry["reason"] for entry in found} == {
        id_of(filled[0]): "not_a_cloudevent",
        id_of(filled[1]): "batched_mode",
        id_of(filled[2]): "unknown_kind",
    }
    assert [(entry["partition"], entry["offset"]) for entry in found] == sorted(
        (record.partition, record.offset) for record in filled
    )
    table = command.run("quarantine", "list").decode()
    assert all(id_of(record) in table for record in filled)
    assert "expected the header ce_specversion, found none" in table


def test_list_some(command: Milepost, filled: list[LogRecord]) -> None:
    def ids(*options: str) -> list[str]:
        return [entry["id"] for entry in json.loads(command.run("quarantine", "list", "--json", *options))]

    assert ids("--reason-code", "batched_mode") == [id_of(filled[1])]
    assert ids("--reason-code", "key_mismatch") == []
    command.run("quarantine", "dismiss", id_of(filled[1]), "--reason", "known")
    assert ids("--status", "dismissed") == [id_of(filled[1])]
    assert len(ids("--status", "open")) == 2
    assert ids("--status", "open", "--reason-code", "batched_mode") == []
    assert command.result("quarantine", "list", "--reason-code", "no_such").returncode == 2


def test_show_all_of_it(command: Milepost, filled: list[LogRecord]) -> None:
    found = json.loads(command.run("quarantine", "show", id_of(filled[0]), "--json"))
    assert found["key"] == {"base64": base64.b64encode(b"\xff\x00key").decode()}
    assert found["size"] == len(ODD_VALUE)
    assert found["headers"] == [
        ["twice", "1"],
        ["twice", "2"],
        ["null", None],
        ["bytes", {"base64": "/wA="}],
        ["", ""],
        ["caf\u00e9", "\u202e"],
    ]
    assert (found["status"], found["topic"], found["note"]) == ("open", TOPIC, None)
    lines = command.run("quarantine", "show", f"{filled[0].partition}@{filled[0].offset}").decode()
    assert lines.count("header twice") == 2
    assert "\u202e" not in lines  # a terminal is told nothing by a foreign publisher


def test_show_the_value_alone(command: Milepost, filled: list[LogRecord]) -> None:
    assert command.run("quarantine", "show", id_of(filled[0]), "--value") == ODD_VALUE
    nothing = command.result("quarantine", "show", id_of(filled[1]), "--value")
    assert (nothing.returncode, nothing.stdout) == (1, b"")


@pytest.mark.parametrize("action", [["show"], ["retry"], ["dismiss", "--reason", "x"]], ids=lambda action: action[0])
def test_an_id_that_is_not_there(command: Milepost, filled: list[LogRecord], action: list[str]) -> None:
    assert command.result("quarantine", action[0], "3@999", *action[1:]).returncode == 1
    assert command.result("quarantine", action[0], f"other.topic/{id_of(filled[0])[-3:]}", *action[1:]).returncode == 1
    assert command.result("quarantine", action[0], "3@x", *action[1:]).returncode == 2


def test_ids() -> None:
    assert a_record_id("milepost.events/3@1234") == Position("milepost.events", 3, 1234)
    assert a_record_id("3@1234") == Position("", 3, 1234)
    for wrong in ("", "3", "x@1", "3@-1", "/3@1", "a b/3@1", "9999999999@0", "0@9999999999999999999", "3@1 "):
        with pytest.raises(click.BadParameter, match="expected"):
            a_record_id(wrong)


def test_dismiss(command: Milepost, database: str, filled: list[LogRecord]) -> None:
    ids = [id_of(filled[0]), f"{filled[1].partition}@{filled[1].offset}"]
    done = json.loads(command.run("quarantine", "dismiss", *ids, "--reason", "a test of ours", "--json"))
    assert [entry["result"] for entry in done] == ["dismissed", "dismissed"]
    shown = json.loads(command.run("quarantine", "show", ids[0], "--json"))
    assert (shown["status"], shown["note"]) == ("dismissed", "a test of ours")
    assert shown["changed_by"].endswith(" as postgres")
    assert shown["changed_at"] >= shown["recorded_at"]
    before = dump(database)
    again = json.loads(command.run("quarantine", "dismiss", *ids, "--reason", "once more", "--json"))
    assert [entry["result"] for entry in again] == ["already dismissed"] * 2
    assert dump(database) == before
    assert command.result("quarantine", "dismiss", ids[0], "--reason", " ").returncode == 2
    assert command.result("quarantine", "dismiss", ids[0]).returncode == 2
    assert command.result("quarantine", "dismiss", ids[0], "--reason", "\udcff").returncode == 2  # the byte FF


def test_retry(command: Milepost, database: str, filled: list[LogRecord]) -> None:
    ids = [id_of(record) for record in filled]
    done = json.loads(command.run("quarantine", "retry", *ids, "--json", expect=1))
    assert {entry["id"]: entry["result"] for entry in done} == {ids[0]: "invalid", ids[1]: "invalid", ids[2]: "applied"}
    assert command.run("get", "t", "s") == filled[2].value
    assert b"already" in command.run("quarantine", "retry", ids[2])
    assert sorted(row[3] for row in quarantined(database)) == ["open", "open", "retried"]
    # what was retried can't be dismissed any more
    assert command.result("quarantine", "dismiss", ids[2], "--reason", "x").returncode == 1


def test_no_view(empty_database: str) -> None:
    done = Milepost({"MILEPOST_DATABASE": empty_database}).result("quarantine", "list")
    assert done.returncode == 3
    assert b"run: milepost setup" in done.stderr


def test_beside_a_consumer_at_work(
    milepost: Milepost, kafka_servers: str, topic: str, database: str, other_database: str, tmp_path: Path
) -> None:
    """The consumer remembers the session's head; it must go on from where the retry has left it."""

    def count() -> int:
        with psycopg.connect(database) as connection:
            row = connection.execute("select sum(events) from milepost.partitions").fetchone()
        assert row is not None
        return int(row[0])

    def event(step: int) -> CheckpointCreated:
        return CheckpointCreated(tenant_id="t", session_id="s", state=b'{"step": %d}' % step, step=step)

    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("alter table milepost.history add constraint unlucky check (step is distinct from 1)")
        with milepost.running("consume", log=tmp_path / "log") as process:
            for step in (0, 1):
                produce(kafka_servers, topic, [event(step)])
                wait_until(lambda number=step + 1: count() == number, f"step {step}")  # type: ignore[misc]
            ((partition, offset, reason, status),) = quarantined(database)
            assert (reason, status) == ("refused_by_postgres", "open")
            connection.execute("alter table milepost.history drop constraint unlucky")
            milepost.run("quarantine", "retry", f"{partition}@{offset}")
            produce(kafka_servers, topic, [event(2)])
            wait_until(lambda: count() == 3, "the step after the retry")
            assert stop(process) == 0, (tmp_path / "log").read_text()
    assert "reading its position again" in (tmp_path / "log").read_text()
    fresh = Milepost({**milepost.environment, "MILEPOST_DATABASE": other_database})
    fresh.run("setup", "--partitions", "4")
    fresh.run("consume", "--until-caught-up")
    assert {**dump(database), "quarantine": []} == dump(other_database)
    milepost.run("compare", database, other_database)
    assert milepost.run("get", "t", "s") == b'{"step": 2}'
    assert [entry["seq"] for entry in json.loads(milepost.run("history", "t", "s", "--json"))] == [1, 2, 3]
