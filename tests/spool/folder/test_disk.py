"""A disk that refuses, waits or is taken away fails events and never raises."""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path

import pytest

from milepost.producer import Spool
from milepost.producer.spool.survey import survey
from milepost.schemas import DeliveryFailed, InvalidSetting
from tests.producer.helpers import created, steps, wait_until
from tests.spool.folder.ground import Make, leave, reason


def test_a_folder_that_can_not_be_made_fails_events_and_never_raises(make: Make) -> None:
    publisher = make("/proc/self/no-spool")
    receipt = publisher.publish(created())
    with pytest.raises(DeliveryFailed, match="spool_failed"):
        receipt.result(0)
    assert publisher.stats().failed_by_reason == {"spool_failed": 1}


@pytest.mark.parametrize("short", [0, 10, 100])
def test_a_full_disk_fails_events_until_there_is_room(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short: int
) -> None:
    told: list[DeliveryFailed] = []
    publisher = make(tmp_path, stalled=True, on_failure=told.append)
    publisher.publish(created(0))
    write = os.writev

    def full(fd: int, parts: tuple[bytes, bytes]) -> int:
        if not short:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(fd, [b"".join(parts)[:short]])

    with monkeypatch.context() as patched:
        patched.setattr(os, "writev", full)
        for number in range(1, 6):
            with pytest.raises(DeliveryFailed, match="No space left"):
                publisher.publish(created(number)).result(0)
    wait_until(lambda: len(told) == 5)
    wait_until(lambda: not publisher.publish(created(6)).done())
    publisher.resume()
    assert steps(publisher.records, b"t/s") == [0, 6]
    publisher.close()
    assert list(tmp_path.iterdir()) == []


def test_fsync_waits_for_the_disk(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", synced.append)
    publisher = make(Spool(tmp_path, fsync=True))
    for number in range(3):
        publisher.publish(created(number))
    assert len(synced) == 3
    assert steps(publisher.records, b"t/s") == [0, 1, 2]


def test_a_removed_folder_costs_nothing_that_is_under_way(
    make: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "spool"
    publisher = make(folder, stalled=True)
    for number in range(5):
        publisher.publish(created(number))
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    with caplog.at_level(logging.WARNING):
        publisher.resume()
    assert steps(publisher.records, b"t/s") == [0, 1, 2, 3, 4]


def test_what_can_not_be_opened_does_not_hold_up_the_rest_of_others(
    make: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked, unreadable, good = (leave(tmp_path, 2, first=first).stats().publisher_id.hex for first in (0, 2, 4))
    (tmp_path / f"{locked}.lock").unlink(missing_ok=True)
    (tmp_path / f"{locked}.lock").mkdir()
    (tmp_path / f"{'1' * 32}-00000001.spool").mkdir()
    real = os.open

    def refusing(path: str | Path, flags: int, mode: int = 0o777) -> int:
        if str(path).endswith(f"{unreadable}-00000001.spool"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real(path, flags, mode)

    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refusing)
        found = survey(tmp_path)
        publisher = make(tmp_path)
        publisher.publish(created(6))
        assert steps(publisher.records, b"t/s") == [4, 5, 6]
        publisher.close()
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
    assert {f"{'1' * 32}-00000001.spool", f"{unreadable}-00000001.spool"} <= set(found.foreign)
    assert good in {each.publisher_id for each in found.publishers}
    assert caplog.text.count(f"what publisher {locked} left") == 1
    assert caplog.text.count(f"what publisher {unreadable} left") == 1
    after = make(tmp_path)
    after.publish(created(7))
    assert steps(after.records, b"t/s") == [2, 3, 7]


@pytest.mark.parametrize("name", ["a\0b", "a\ud800", "a" * 300, "/".join(["a" * 200] * 30)])
def test_a_path_that_no_system_takes_is_refused_at_once(make: Make, tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidSetting, match=r"^spool: "):
        make(f"{tmp_path}/{name}")


def test_a_disk_that_raises_something_else_fails_the_event(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher = make(tmp_path)

    def refuse(*_: object) -> int:
        raise ValueError("embedded null byte")

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        receipt = publisher.publish(created())
    assert reason(receipt) == "spool_failed"
