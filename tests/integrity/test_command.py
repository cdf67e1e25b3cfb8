"""The real command with a key: from the log to the reads, and what each refusal exits with."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.fixtures.commands import Milepost
from tests.integrity.ground import execute


def a_key(folder: Path, name: str) -> str:
    path = folder / name
    path.write_bytes(os.urandom(32))
    path.chmod(0o600)
    return str(path)


def test_a_view_with_a_key(milepost: Milepost, tmp_path: Path) -> None:
    first, second = a_key(tmp_path, "first.key"), a_key(tmp_path, "second.key")
    milepost.run("publish", "acme", "trip", "--checkpoint-id", "c1", stdin=b'{"step":1}')
    milepost.run("consume", "--until-caught-up", "--integrity-key", first)
    without = milepost.result("consume", "--until-caught-up")
    assert without.returncode == 3
    assert b"give it by --integrity-key FILE or MILEPOST_INTEGRITY_KEY" in without.stderr

    milepost.environment["MILEPOST_INTEGRITY_KEY"] = os.pathsep.join([second, first])
    report = json.loads(milepost.run("audit", "rekey", "--json"))
    assert (report["sessions_signed"], report["checkpoints_signed"], report["complete"]) == (1, 1, True)
    milepost.environment["MILEPOST_INTEGRITY_KEY"] = second
    assert milepost.run("get", "acme", "trip") == b'{"step":1}'
    missing = milepost.result("get", "acme", "trip", "--integrity-key", str(tmp_path / "none.key"))
    assert missing.returncode == 2
    assert b"none.key: No such file" in missing.stderr

    execute(milepost.environment["MILEPOST_DATABASE"], "update milepost.checkpoints set step = 9")
    tampered = milepost.result("list", "acme", "trip")
    assert tampered.returncode == 1
    assert b"checkpoint_id=c1: step: expected null as in history, found 9" in tampered.stderr
    milepost.run("publish", "acme", "trip", "--checkpoint-id", "c2", stdin=b"2")
    consumed = milepost.result("consume", "--until-caught-up")
    assert consumed.returncode == 3
    assert b"is stopped at offset 1: milepost.checkpoints tenant_id=acme session_id=trip seq=1" in consumed.stderr
