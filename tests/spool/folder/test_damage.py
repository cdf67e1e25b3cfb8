"""Files that are torn, changed or foreign cost what they hold, and nothing beside it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from milepost.producer.spool.format import HEAD_BYTES, RECORD_MAGIC
from milepost.producer.spool.survey import survey
from milepost.producer.testing import MemoryPublisher
from milepost.schemas import DeliveryFailed
from tests.producer.helpers import created, steps
from tests.spool.folder.ground import Make, leave, reason, segments


@pytest.mark.parametrize("cut", [1, HEAD_BYTES - 1, HEAD_BYTES, HEAD_BYTES + 1, 100])
def test_a_torn_tail_is_set_aside(make: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture, cut: int) -> None:
    leave(tmp_path, 10)
    (path,) = segments(tmp_path)
    last = path.read_bytes().rfind(RECORD_MAGIC)
    os.truncate(path, last + cut)
    publisher = make(tmp_path)
    publisher.publish(created(10))
    assert steps(publisher.records, b"t/s") == [*range(9), 10]
    publisher.close()
    assert f"{path} is damaged from byte {last} to {last + cut}" in caplog.text
    assert [each.name for each in tmp_path.iterdir()] == [f"{path.name}.damaged"]
    assert survey(tmp_path).set_aside == [f"{path.name}.damaged"]


@pytest.mark.parametrize("where", [0, 4, 12, 16, 20, HEAD_BYTES, HEAD_BYTES + 40])
def test_a_flipped_bit_costs_one_event(
    make: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture, where: int
) -> None:
    leave(tmp_path, 10)
    (path,) = segments(tmp_path)
    content = bytearray(path.read_bytes())
    starts = [at for at in range(len(content)) if content.startswith(RECORD_MAGIC, at)]
    assert len(starts) == 10
    content[starts[4] + where] ^= 0x10
    path.write_bytes(content)
    assert survey(tmp_path).publishers[0].damaged == 1
    publisher = make(tmp_path)
    publisher.publish(created(10))
    assert steps(publisher.records, b"t/s") == [0, 1, 2, 3, 5, 6, 7, 8, 9, 10]
    publisher.close()
    assert "is damaged" in caplog.text
    assert [each.name for each in tmp_path.iterdir()] == [f"{path.name}.damaged"]


def test_a_flipped_bit_in_the_mark_sends_more_never_less(make: Make, tmp_path: Path) -> None:
    publisher = MemoryPublisher(spool=tmp_path)
    publisher.publish(created(0))
    publisher.stall()
    publisher.publish(created(1))
    publisher.close(0)
    (path,) = segments(tmp_path)
    content = bytearray(path.read_bytes())
    content[9] ^= 1
    path.write_bytes(content)
    after = make(tmp_path)
    after.publish(created(2))
    assert steps(after.records, b"t/s") == [0, 1, 2]


@pytest.mark.parametrize("content", [b"x", b"not a spool", b"\xffmpspl1\n", os.urandom(4_000)])
def test_a_foreign_file_under_a_segments_name_is_set_aside(
    make: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    leave(tmp_path, 3)
    path = tmp_path / f"{'0' * 32}-00000001.spool"
    path.write_bytes(content)
    (tmp_path / "notes.txt").write_text("mine", "utf-8")
    assert survey(tmp_path).foreign == [path.name, "notes.txt"]
    publisher = make(tmp_path)
    publisher.publish(created(3))
    assert steps(publisher.records, b"t/s") == [0, 1, 2, 3]
    publisher.close()
    assert f"{path} is no file of a spool" in caplog.text
    assert sorted(each.name for each in tmp_path.iterdir()) == [f"{path.name}.foreign", "notes.txt"]
    assert (tmp_path / f"{path.name}.foreign").read_bytes() == content


@pytest.mark.parametrize(("broken", "lost"), [([4], [4]), ([3, 4, 5], [3, 4, 5]), ([8, 9], [8, 9]), ([0], [0])])
def test_own_events_in_a_damaged_stretch_fail_as_damaged(
    make: Make, tmp_path: Path, broken: list[int], lost: list[int]
) -> None:
    told: list[DeliveryFailed] = []
    publisher = make(tmp_path, stalled=True, on_failure=told.append)
    receipts = [publisher.publish(created(number)) for number in range(10)]
    (path,) = segments(tmp_path)
    content = bytearray(path.read_bytes())
    starts = [at for at in range(len(content)) if content.startswith(RECORD_MAGIC, at)]
    for number in broken:
        content[starts[number]] ^= 0x10
    with path.open("r+b") as file:
        file.write(content)
    publisher.resume()
    assert steps(publisher.records, b"t/s") == [number for number in range(10) if number not in lost]
    assert [number for number, receipt in enumerate(receipts) if reason(receipt) == "spool_damaged"] == lost
    publisher.close(0)
    stats = publisher.stats()
    assert (stats.failed_by_reason, stats.spooled, stats.under_way) == ({"spool_damaged": len(lost)}, 0, 0)
    assert sorted(failure.event_id for failure in told) == sorted(receipts[number].event_id for number in lost)
