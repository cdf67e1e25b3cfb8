"""Key files: what is one, who may read it, and that a key shows nowhere."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

import pytest

from milepost.consumer.integrity import IntegrityKey, Keyring, keyring
from milepost.consumer.store import CheckpointStore
from milepost.schemas import InvalidSetting

CONTENT = bytes(range(32))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "integrity.key"
    path.write_bytes(CONTENT)
    path.chmod(0o600)
    return path


def test_a_key_is_loaded(file: Path) -> None:
    key = IntegrityKey.load(file)
    assert key.id == sha256(b"milepost integrity key id 1\n" + CONTENT).digest()[:8]
    assert key.id == IntegrityKey(CONTENT).id
    assert CONTENT.hex() not in repr(key) + str(key)


@pytest.mark.parametrize("content", [b"", CONTENT[:31], CONTENT + b"\n", CONTENT.hex().encode()])
def test_what_is_no_key_is_refused(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    with pytest.raises(InvalidSetting, match=r"expected 32 random bytes, found .*; make one with"):
        IntegrityKey.load(file)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="nothing: No such file"):
        IntegrityKey.load(tmp_path / "nothing")
    with pytest.raises(InvalidSetting, match="Is a directory"):
        IntegrityKey.load(tmp_path)


@pytest.mark.parametrize("mode", [0o604, 0o602, 0o620, 0o660])
def test_a_file_that_others_may_read_or_write_is_refused(file: Path, mode: int) -> None:
    file.chmod(mode)
    with pytest.raises(InvalidSetting, match="only its owner can read"):
        IntegrityKey.load(file)


def test_a_group_may_read_a_file_of_root_alone(file: Path) -> None:
    file.chmod(0o640)
    if file.stat().st_uid == 0:
        assert IntegrityKey.load(file).id == IntegrityKey(CONTENT).id
        os.chown(file, 12345, 12345)
    with pytest.raises(InvalidSetting, match="0640 if it belongs to root"):
        IntegrityKey.load(file)


def test_a_keyring(file: Path) -> None:
    other = IntegrityKey(bytes(32))
    ring = keyring([other, file, str(file)])
    assert ring is not None
    assert ring.signing_id == other.id
    assert ring.ids == frozenset({other.id, IntegrityKey(CONTENT).id})
    assert keyring([]) is keyring(None) is None
    with pytest.raises(InvalidSetting, match="expected one at least"):
        Keyring([])


@pytest.mark.parametrize("wrong", ["integrity.key", CONTENT, IntegrityKey(CONTENT)])
def test_one_key_alone_is_no_list_of_keys(wrong: object) -> None:
    with pytest.raises(InvalidSetting, match=r"expected several, such as \[PATH\]"):
        CheckpointStore("host=nowhere", integrity_keys=wrong)  # type: ignore[arg-type]
