"""The commands: their files, their exit statuses, what they print."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.audit_export.conftest import SESSION, STATES, TENANT, Ground
from tests.fixtures.commands import Milepost


@pytest.fixture
def command(ground: Ground) -> Milepost:
    """The command, pointed at the story."""
    return Milepost(
        {"MILEPOST_KAFKA": ground.kafka, "MILEPOST_TOPIC": ground.topic, "MILEPOST_DATABASE": ground.database}
    )


def test_state(command: Milepost, tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    assert command.run("audit", "state", TENANT, SESSION, "b", "--to", str(path)) == b""
    assert path.read_bytes() == STATES[4]
    assert list(tmp_path.iterdir()) == [path]
    assert command.run("audit", "state", TENANT, SESSION, "a", "--seq", "3") == STATES[3]
    done = command.result("audit", "state", TENANT, SESSION, "nobody")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"history knows no checkpoint nobody" in done.stderr
    away = command.result("audit", "state", TENANT, SESSION, "b", "--kafka", "127.0.0.1:1", "--timeout", "0.5")
    assert (away.returncode, away.stdout) == (3, b"")
    assert b"127.0.0.1:1 " in away.stderr
    assert b"10 s" not in away.stderr


def test_export_check_and_import(command: Milepost, tmp_path: Path) -> None:
    path = tmp_path / "export.tar"
    done = json.loads(command.run("audit", "export", TENANT, SESSION, "--to", str(path), "--json"))
    assert (done["events"], done["from_view"], done["from_log"], done["missing"]) == (11, 3, 7, 0)
    command.run("audit", "export", TENANT, SESSION, "--to", str(path), expect=2)
    command.run("audit", "export", TENANT, "nobody", "--to", str(tmp_path / "none.tar"), expect=1)
    assert list(tmp_path.iterdir()) == [path]
    checked = json.loads(command.run("audit", "check-export", str(path), "--json"))
    assert (checked["ok"], checked["events"], checked["chain"]) == (True, 11, done["chain"])
    with path.open("r+b") as stream:
        stream.seek(-4_000, os.SEEK_END)
        stream.write(b"!")
    refused = command.result("audit", "check-export", str(path))
    assert (refused.returncode, b"expected" in refused.stderr) == (1, True)
    refused = command.result("import", str(path))
    assert (refused.returncode, b"nothing was sent" in refused.stderr) == (1, True)


def test_history(command: Milepost) -> None:
    found = json.loads(command.run("history", TENANT, SESSION, "--json"))
    assert [entry["became"] for entry in found[:3]] == ["deleted", "duplicate", "conflict"]
    assert set(found[0]) >= {
        *("seq", "kind", "outcome", "became", "why", "event_id", "checkpoint_id", "parent_id", "run_id", "step"),
        *("event_time", "log_time", "size", "sha256", "source", "publisher_id", "publisher_seq", "traceparent"),
        *("tracestate", "framework_version", "schema_version", "pinned", "labels", "extensions", "chain", "next_node"),
        *("reason", "position", "topic", "partition", "offset"),
    }
    assert found[10]["extensions"] == {"zebra": "z", "apple": "ä"}
    only = json.loads(
        command.run("history", TENANT, SESSION, "--became", "pruned", "--since", found[0]["log_time"], "--json")
    )
    assert [entry["checkpoint_id"] for entry in only] == ["a", "c"]
    table = command.run(
        "history", TENANT, SESSION, "--kind", "checkpoint-created", "--run", found[0]["run_id"]
    ).decode()
    assert "pruned: newest 2" in table
    assert "deleted by seq 5" in table
    command.run("history", TENANT, SESSION, "--until", "noon", expect=2)
    assert json.loads(command.run("history", TENANT, "nobody", "--json")) == []
