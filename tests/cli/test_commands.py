"""The commands on a view: what they print for programs and for people, and every sample byte for byte."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg
import pytest

from milepost.consumer import CheckpointStore
from milepost.consumer.cli.commands import run
from milepost.schemas import CheckpointCreated
from tests.fixtures.commands import Milepost
from tests.fixtures.publishing import produce

SAMPLES = Path(__file__).parent.parent / "data" / "samples"
RUN = "00000000-0000-0000-0000-00000000002a"


@pytest.fixture
def filled(milepost: Milepost) -> Milepost:
    """A session of two checkpoints, one of three that was deleted, and one of another tenant."""
    for step, state in enumerate((b'{"$type":0,"b":1,"a":2}', b" [1.0, 1E5,\t-0]\r\n")):
        milepost.run(
            *("publish", "acme", "kept", "--checkpoint-id", f"c{step}", "--step", str(step), "--run-id", RUN),
            *("--label", "workflow=travel", "--framework-version", "1.23.0", "--schema-version", "2"),
            stdin=state,
        )
    milepost.run("publish", "acme", "gone", "--pinned", stdin=b"{}")
    milepost.run("delete-session", "acme", "gone", "--reason", "asked to")
    milepost.run("publish", "other", "kept", "--checkpoint-id", "theirs", stdin=b'"secret"')
    milepost.run("consume", "--until-caught-up")
    return milepost


def test_get_of_each_sample_is_the_file(
    milepost: Milepost, kafka_servers: str, topic: str, database: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    paths = sorted(SAMPLES.rglob("*.json"))
    assert len(paths) > 30
    milepost.run("publish", "samples", str(paths[0].relative_to(SAMPLES)), "--state", str(paths[0]))
    produce(
        kafka_servers,
        topic,
        [
            CheckpointCreated(tenant_id="samples", session_id=str(path.relative_to(SAMPLES)), state=path.read_bytes())
            for path in paths[1:]
        ],
    )
    milepost.run("consume", "--until-caught-up")
    first, *others = [(path, ("get", "samples", str(path.relative_to(SAMPLES)))) for path in paths]
    assert milepost.run(*first[1]) == first[0].read_bytes()
    for path, get in others:  # in this process, as another one takes a second to start
        assert run([*get, "--database", database]) == 0
        assert capfdbinary.readouterr().out == path.read_bytes(), path


def test_publish_prints_the_receipt(milepost: Milepost, topic: str) -> None:
    receipt = json.loads(milepost.run("publish", "acme", "s", "--checkpoint-id", "c1", "--json", stdin=b"1"))
    assert receipt["checkpoint_id"] == "c1"
    assert receipt["position"].startswith(f"{topic}/")
    deletion = json.loads(milepost.run("delete-session", "acme", "s", "--json"))
    assert set(deletion) == {"event_id", "position"}


def test_get(filled: Milepost) -> None:
    assert filled.run("get", "acme", "kept", "c0") == b'{"$type":0,"b":1,"a":2}'
    assert filled.run("get", "acme", "kept") == b" [1.0, 1E5,\t-0]\r\n"
    filled.run("get", "acme", "gone", expect=1)
    filled.run("get", "acme", "kept", "theirs", expect=1)


def test_list(filled: Milepost) -> None:
    listed = json.loads(filled.run("list", "acme", "kept", "--json"))
    assert [entry["checkpoint_id"] for entry in listed] == ["c0", "c1"]
    first = listed[0]
    assert {
        name: first[name] for name in ("seq", "step", "run_id", "labels", "framework_version", "schema_version")
    } == {
        "seq": 1,
        "step": 0,
        "run_id": RUN,
        "labels": {"workflow": "travel"},
        "framework_version": "1.23.0",
        "schema_version": 2,
    }
    newest = json.loads(filled.run("list", "acme", "kept", "--newest-first", "--limit", "1", "--json"))
    assert [entry["checkpoint_id"] for entry in newest] == ["c1"]
    assert [entry["seq"] for entry in json.loads(filled.run("list-run", "acme", RUN, "--json"))] == [1, 2]
    assert json.loads(filled.run("list", "acme", "gone", "--json")) == []
    assert json.loads(filled.run("list", "nobody", "kept", "--json")) == []


def test_sessions_and_history(filled: Milepost) -> None:
    sessions = json.loads(filled.run("sessions", "acme", "--json"))
    assert [(entry["session_id"], entry["live_checkpoints"], entry["last_seq"]) for entry in sessions] == [
        ("gone", 0, 2),
        ("kept", 2, 2),
    ]
    assert sessions[0]["deleted_at"] is not None
    after = json.loads(filled.run("sessions", "acme", "--after", "gone", "--limit", "1", "--json"))
    assert [entry["session_id"] for entry in after] == ["kept"]
    history = json.loads(filled.run("history", "acme", "gone", "--json"))
    assert [(entry["seq"], entry["kind"], entry["outcome"], entry["reason"]) for entry in history] == [
        (1, "checkpoint-created", "applied", None),
        (2, "session-deleted", "applied", "asked to"),
    ]


def test_tables_show_the_same(filled: Milepost) -> None:
    assert [row.split()[1:3] for row in filled.run("list", "acme", "kept").decode().splitlines()[1:]] == [
        ["1", "c0"],
        ["2", "c1"],
    ]
    assert "session-deleted" in filled.run("history", "acme", "gone").decode()
    assert filled.run("sessions", "acme").decode().splitlines()[1].split()[0] == "gone"
    assert "lag" in filled.run("status").decode()


def test_status(filled: Milepost, topic: str) -> None:
    status = json.loads(filled.run("status", "--json"))
    names = ("topic", "lag", "sessions", "checkpoints", "events", "applied", "duplicates", "stale", "quarantined")
    assert [status[name] for name in names] == [topic, 0, 3, 3, 5, 5, 0, 0, 0]
    assert sum(row["next_offset"] for row in status["partitions"]) == 5
    filled.run("publish", "acme", "kept", stdin=b"1")
    assert json.loads(filled.run("status", "--json"))["lag"] == 1


def test_retention(filled: Milepost) -> None:
    assert json.loads(filled.run("retention", "show", "--json")) == [
        {"tenant_id": None, "session_id": None, "newest": 50, "max_age_seconds": None, "max_bytes": None}
    ]
    filled.run("retention", "set", "--newest", "1", "--tenant", "acme")
    narrow = ("--tenant", "other", "--session", "kept", "--max-age", "86400", "--max-bytes", "1000000")
    filled.run("retention", "set", "--newest", "9", *narrow)
    assert json.loads(filled.run("retention", "show", "--json"))[1:] == [
        {"tenant_id": "acme", "session_id": None, "newest": 1, "max_age_seconds": None, "max_bytes": None},
        {"tenant_id": "other", "session_id": "kept", "newest": 9, "max_age_seconds": 86400.0, "max_bytes": 1000000},
    ]
    # the session stands still, and is measured by the new policy all the same
    filled.run("consume", "--until-caught-up")
    assert [entry["seq"] for entry in json.loads(filled.run("list", "acme", "kept", "--json"))] == [2]
    filled.run("setup", "--retain", "7")
    assert json.loads(filled.run("retention", "show", "--json"))[0]["newest"] == 7


def test_a_state_changed_in_the_database_is_noticed(filled: Milepost, database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute(
            'update milepost.checkpoints set state = \'{"$type":0,"b":1,"a":3}\' where checkpoint_id = \'c0\''
        )
    done = filled.result("get", "acme", "kept", "c0")
    assert (done.returncode, done.stdout) == (1, b"")
    assert "SHA-256" in done.stderr.decode() or "digest" in done.stderr.decode()


def test_setup_says_what_it_did_and_is_safe_to_repeat(milepost: Milepost, topic: str) -> None:
    report = json.loads(milepost.run("setup", "--json"))
    assert (report["log"]["topic"], report["log"]["partitions"]) == (topic, 4)
    assert (report["topic_created"], report["migrations_applied"], report["newest"]) == (False, [], 50)


def test_the_store_reads_what_the_command_wrote(filled: Milepost, database: str) -> None:
    with CheckpointStore(database) as store:
        checkpoint = store.latest("acme", "kept")
    assert checkpoint is not None
    assert checkpoint.state == b" [1.0, 1E5,\t-0]\r\n"
