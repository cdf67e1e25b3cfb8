"""An export holds the history and all states, is the same each time, and comes out equal where it is published again."""

from __future__ import annotations

import json
import subprocess
import tarfile
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg import conninfo, sql

from milepost.consumer import CheckpointStore, kafka
from milepost.consumer.audit.export_check import ExportCheck, check_export
from milepost.consumer.audit.export_import import Imported, ImportRequest, import_session
from milepost.consumer.log import create_topic
from milepost.schemas import InvalidSetting, WrongLog
from tests.audit_export.conftest import LIVE, SESSION, STATES, TENANT, Ground, build
from tests.fixtures.view import PARTITIONS


def checked(path: Path) -> ExportCheck:
    with path.open("rb") as stream:
        return check_export(stream)


def new_topic(ground: Ground) -> str:
    name = f"{ground.topic}.{uuid4().hex[:6]}"
    create_topic(kafka.admin(ground.kafka), ground.kafka, name, PARTITIONS, 1)
    return name


def imported(ground: Ground, path: Path, topic: str, **names: str) -> Imported:
    with path.open("rb") as stream:
        found = import_session(ImportRequest(kafka=ground.kafka, topic=topic, **names), stream)
    assert isinstance(found, Imported), found
    return found


def live(ground: Ground, database: str, tenant: str = TENANT, session: str = SESSION) -> dict[str, bytes]:
    with CheckpointStore(database) as store:
        found = [store.get(tenant, session, info.checkpoint_id) for info in store.list(tenant, session)]
    return {each.checkpoint_id: each.state for each in found if each is not None}


def test_what_is_in_it(ground: Ground, tmp_path: Path) -> None:
    path = tmp_path / "export.tar"
    done = ground.export(path)
    assert done is not None
    assert (done.events, done.from_view, done.from_log, done.missing) == (11, 3, 7, 0)
    found = checked(path)
    assert (found.problems, found.events, found.states, found.chain) == ([], 11, 10, done.chain)
    with tarfile.open(path) as archive:
        archive.extractall(tmp_path / "out", filter="data")
    out = tmp_path / "out"
    assert {int(file.stem): file.read_bytes() for file in (out / "states").iterdir()} == STATES
    assert subprocess.run(["sha256sum", "--check", "--quiet", "manifest.sha256"], cwd=out, check=False).returncode == 0
    with CheckpointStore(ground.database) as store:
        history = store.history(TENANT, SESSION)
    lines = [json.loads(line) for line in (out / "history.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(line["seq"], line["outcome"], line["chain"], line["offset"]) for line in lines] == [
        (entry.seq, entry.outcome, entry.chain.hex(), entry.position.offset) for entry in history
    ]
    assert json.loads(lines[10]["extensions"]) == {"zebra": "z", "apple": "ä"}
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    assert (manifest["format"], manifest["tenant_id"], manifest["session_id"]) == ("milepost-export/1", TENANT, SESSION)
    assert manifest["log"]["topic"] == ground.topic
    assert manifest["head"]["chain"] == done.chain.hex()


def test_the_same_session_gives_the_same_bytes(ground: Ground, other_database: str, tmp_path: Path) -> None:
    first, again, elsewhere = (tmp_path / name for name in ("first", "again", "elsewhere"))
    ground.export(first)
    ground.export(again)
    build(ground.kafka, ground.topic, other_database).export(elsewhere)
    assert first.read_bytes() == again.read_bytes() == elsewhere.read_bytes()


def test_published_again_it_comes_out_equal(ground: Ground, other_database: str, tmp_path: Path) -> None:
    path, topic = tmp_path / "export.tar", new_topic(ground)
    ground.export(path)
    done = imported(ground, path, topic)
    assert (done.tenant_id, done.session_id, done.sent, done.left_out) == (TENANT, SESSION, 11, 0)
    build(ground.kafka, topic, other_database)
    assert live(ground, other_database) == live(ground, ground.database) == LIVE
    with CheckpointStore(ground.database) as ours, CheckpointStore(other_database) as theirs:
        assert done.position is not None
        theirs.wait_for(done.position, 0)
        before, after = ours.session(TENANT, SESSION), theirs.session(TENANT, SESSION)
        assert before is not None
        assert after is not None
        assert after.chain == before.chain
        assert [(each.outcome, each.chain) for each in theirs.history(TENANT, SESSION)] == [
            (each.outcome, each.chain) for each in ours.history(TENANT, SESSION)
        ]


def test_under_another_name(ground: Ground, other_database: str, tmp_path: Path) -> None:
    path, topic = tmp_path / "export.tar", new_topic(ground)
    ground.export(path)
    assert imported(ground, path, topic, tenant_id="copy", session_id="elsewhere").sent == 11
    build(ground.kafka, topic, other_database)
    assert live(ground, other_database, "copy", "elsewhere") == LIVE
    assert live(ground, other_database) == {}
    with path.open("rb") as stream, pytest.raises(InvalidSetting, match="session: expected no /"):
        import_session(ImportRequest(kafka=ground.kafka, topic=topic, session_id="/x"), stream)


def test_states_that_nobody_holds_any_more_are_named(own: Ground, other_database: str, tmp_path: Path) -> None:
    own.lose(6)
    with CheckpointStore(own.database) as store:
        with pytest.raises(WrongLog, match=r"does not hold the record .* any more: it begins at offset 6"):
            store.state_from_log(TENANT, SESSION, "b", kafka=own.kafka)
        kept = store.state_from_log(TENANT, SESSION, "c", kafka=own.kafka)
        assert kept is not None
        assert kept.state == b"[8]"
    path, topic = tmp_path / "export.tar", new_topic(own)
    done = own.export(path)
    assert done is not None
    assert (done.from_view, done.from_log, done.missing) == (3, 2, 5)
    found = checked(path)
    assert (found.problems, found.states, found.missing) == ([], 5, 5)
    with tarfile.open(path) as archive, archive.extractfile("manifest.json") as stream:  # type: ignore[union-attr]
        missing = json.loads(stream.read())["missing"]
    assert missing == [{"first_seq": 1, "last_seq": 6, "why": "not in the view, and the log does not hold it any more"}]
    # what was applied and is there: the deletion, and what came after it
    assert (imported(own, path, topic).sent, imported(own, path, topic).left_out) == (6, 5)
    build(own.kafka, topic, other_database)
    assert live(own, other_database) == LIVE


def test_from_the_view_alone_and_as_a_reader(ground: Ground, tmp_path: Path) -> None:
    path, login = tmp_path / "export.tar", f"reader_{uuid4().hex}"
    with psycopg.connect(ground.database, autocommit=True) as connection:
        name = sql.Identifier(login)
        connection.execute(sql.SQL("create role {} login password 'x'").format(name))
        connection.execute(sql.SQL("grant milepost_reader to {}").format(name))
        reader = Ground(ground.kafka, ground.topic, conninfo.make_conninfo(ground.database, user=login, password="x"))
        done = reader.export(path, kafka=False)
        connection.execute(sql.SQL("drop role {}").format(name))
    assert done is not None
    assert (done.events, done.from_view, done.from_log, done.missing) == (11, 3, 0, 7)
    assert checked(path).problems == []


def test_a_damaged_state_in_the_view_is_taken_from_the_log(own: Ground, tmp_path: Path) -> None:
    with psycopg.connect(own.database) as connection:
        connection.execute("update milepost.checkpoints set state = '0' where checkpoint_id = 'd'")
    done = own.export(tmp_path / "export.tar")
    assert done is not None
    assert (done.from_view, done.from_log) == (2, 8)
    assert checked(tmp_path / "export.tar").problems == []
