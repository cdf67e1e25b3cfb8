"""What the spool does with its folder: rests, damage, foreign files, limits, disks that refuse. Over the twin in memory."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from uuid import uuid4

import pytest

from milepost.producer import Receipt, Spool
from milepost.producer.spool.format import HEAD_BYTES, RECORD_MAGIC
from milepost.producer.spool.survey import survey
from milepost.producer.testing import MemoryPublisher
from milepost.schemas import CheckpointCreated, DeliveryFailed, Event, InvalidSetting, SessionDeleted
from tests.producer.helpers import created, header, steps, wait_until

Make = Callable[..., MemoryPublisher]


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[MemoryPublisher] = []

    def build(spool: object, *, stalled: bool = False, **options: object) -> MemoryPublisher:
        publisher = MemoryPublisher(spool=spool, **options)  # type: ignore[arg-type]
        made.append(publisher)
        if stalled:
            publisher.stall()
        return publisher

    yield build
    for publisher in made:
        publisher.close(0)


def leave(folder: Path, count: int, *, first: int = 0, size: int = 0) -> MemoryPublisher:
    """A publisher that ends with its log away, and so leaves all events in the folder."""
    publisher = MemoryPublisher(spool=folder)
    publisher.stall()
    for number in range(first, first + count):
        publisher.publish(created(number, size=size))
    publisher.close(0)
    return publisher


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.spool"))


def test_what_was_delivered_leaves_nothing(make: Make, tmp_path: Path) -> None:
    publisher = make(tmp_path)
    for number in range(100):
        publisher.publish(created(number))
    publisher.close()
    assert steps(publisher.records, b"t/s") == list(range(100))
    assert list(tmp_path.iterdir()) == []


def test_the_rest_comes_first_in_order_with_its_own_numbers(make: Make, tmp_path: Path) -> None:
    dead = leave(tmp_path, 50).stats()
    assert (dead.published, dead.spooled, dead.failed, dead.under_way) == (50, 50, 0, 0)
    publisher = make(tmp_path)
    for number in range(50, 100):
        publisher.publish(created(number))
    records = publisher.records
    assert steps(records, b"t/s") == list(range(100))
    owner, new = str(dead.publisher_id), str(publisher.stats().publisher_id)
    assert [header(record, "ce_publisherid") for record in records] == [owner] * 50 + [new] * 50
    assert [header(record, "ce_publisherseq") for record in records] == [str(n) for n in range(1, 51)] * 2
    stats = publisher.stats()
    assert (stats.published, stats.delivered, stats.recovered) == (50, 50, 50)
    publisher.close()
    assert list(tmp_path.iterdir()) == []


def test_all_that_an_event_says_comes_through_the_disk(make: Make, tmp_path: Path) -> None:
    class Text(str):
        """As libraries have them for their ids."""

    events: list[Event] = [
        CheckpointCreated(
            tenant_id=Text("acme"),
            session_id=Text("s/1 ü"),
            state=b' {"$type":0,"b":1E5,"a":-0, "b":"\\ud800\\u0000"}\n',
            checkpoint_id=Text("c"),
            parent_id="p",
            run_id=uuid4(),
            step=3,
            next_node=Text("n"),
            framework_version="1.0",
            schema_version=2,
            pinned=True,
            labels={"a": "ü"},
            created_at=datetime(1969, 7, 20, 22, 17, 40, 123_456, timezone(timedelta(hours=2))),
        ),
        SessionDeleted(
            tenant_id="acme", session_id="s/1 ü", reason="asked", deleted_at=datetime(9999, 1, 1, tzinfo=UTC)
        ),
    ]
    direct, spooled = MemoryPublisher(source="/runtimes/x"), make(tmp_path, source="/runtimes/x")
    for event in events:
        direct.publish(event)
        spooled.publish(event)
    for one, other in zip(direct.records, spooled.records, strict=True):
        assert (one.key, one.value) == (other.key, other.value)
        ours = {"ce_publisherid"}
        assert [each for each in one.headers if each[0] not in ours] == [
            each for each in other.headers if each[0] not in ours
        ]
    assert spooled.records[1].value is None


def test_several_rests_come_oldest_first(make: Make, tmp_path: Path) -> None:
    for generation in range(4):
        publisher = MemoryPublisher(spool=tmp_path / "away", topic="t")
        publisher.stall()
        publisher.publish(created(generation))
        publisher.close(0)
        for path in (tmp_path / "away").iterdir():
            (tmp_path / "spool").mkdir(exist_ok=True)
            path.rename(tmp_path / "spool" / path.name)
    publisher = make(tmp_path / "spool", topic="t")
    publisher.publish(created(4))
    assert steps(publisher.records, b"t/s") == [0, 1, 2, 3, 4]


def test_receipts_of_what_stays_say_so(make: Make, tmp_path: Path) -> None:
    told: list[DeliveryFailed] = []
    publisher = make(tmp_path, stalled=True, on_failure=told.append)
    receipts = [publisher.publish(created(number)) for number in range(3)]
    publisher.close(0)
    for receipt in receipts:
        with pytest.raises(DeliveryFailed, match="stays in") as caught:
            receipt.result(0)
        assert caught.value.reason == "spooled"
    assert told == []


def test_a_living_publishers_events_are_left_alone(make: Make, tmp_path: Path) -> None:
    living = make(tmp_path, stalled=True)
    living.publish(created(0))
    other = make(tmp_path)
    other.publish(created(1))
    assert steps(other.records, b"t/s") == [1]
    (found,) = [each for each in survey(tmp_path).publishers if each.events]
    assert (found.publisher_id, found.alive, found.events) == (living.stats().publisher_id.hex, True, 1)
    living.resume()
    assert steps(living.records, b"t/s") == [0]


def test_another_topics_rest_is_left_alone(make: Make, tmp_path: Path) -> None:
    leave(tmp_path, 3)
    publisher = make(tmp_path, topic="other")
    publisher.publish(created(9))
    assert steps(publisher.records, b"t/s") == [9]
    assert survey(tmp_path).events == 3


def test_what_was_settled_is_not_sent_again(make: Make, tmp_path: Path) -> None:
    publisher = MemoryPublisher(spool=tmp_path)
    for number in range(30):
        publisher.publish(created(number))
    publisher.stall()
    for number in range(30, 40):
        publisher.publish(created(number))
    publisher.close(0)
    assert survey(tmp_path).events == 10
    after = make(tmp_path)
    after.publish(created(40))
    assert steps(after.records, b"t/s") == list(range(30, 41))


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


def test_the_limit_holds_and_space_comes_back(make: Make, tmp_path: Path) -> None:
    limit = 2 * 1024 * 1024
    publisher = make(Spool(tmp_path, limit_bytes=limit), stalled=True)
    receipts = [publisher.publish(created(number, size=10_000)) for number in range(400)]
    failed = [receipt for receipt in receipts if receipt.done()]
    assert 190 < len(receipts) - len(failed) < 210
    assert _used(tmp_path) <= limit
    with pytest.raises(DeliveryFailed, match="limit_bytes") as caught:
        failed[0].result(0)
    assert caught.value.reason == "spool_full"
    stats = publisher.stats()
    assert stats.failed_by_reason == {"spool_full": len(failed)}
    assert stats.under_way == 400 - len(failed)
    publisher.resume()
    assert _used(tmp_path) < limit // 16 + 50_000
    assert publisher.publish(created(400, size=10_000)).result(0)
    numbers = [int(header(record, "ce_publisherseq") or 0) for record in publisher.records]
    assert numbers[-1] - len(numbers) == len(failed)


def test_two_publishers_share_the_limit(make: Make, tmp_path: Path) -> None:
    limit = 2 * 1024 * 1024
    publishers = [make(Spool(tmp_path, limit_bytes=limit), stalled=True) for _ in range(2)]
    for number in range(300):
        for publisher in publishers:
            publisher.publish(created(number, size=10_000))
    assert _used(tmp_path) <= limit
    assert sum(publisher.stats().failed for publisher in publishers) > 300


def test_an_event_larger_than_a_segment_is_taken_whole(make: Make, tmp_path: Path) -> None:
    limit = 4 * 1024 * 1024
    publisher = make(Spool(tmp_path, limit_bytes=limit), stalled=True)
    large = publisher.publish(created(0, size=2 * 1024 * 1024))
    too_large = publisher.publish(created(1, size=3 * 1024 * 1024))
    publisher.resume()
    assert large.result(0).offset == 0
    with pytest.raises(DeliveryFailed, match="spool_full"):
        too_large.result(0)


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


def test_memory_does_not_grow_with_what_waits(make: Make, tmp_path: Path) -> None:
    publisher = make(tmp_path, stalled=True)
    publisher.publish(created(size=7_500))
    before = _resident()
    for number in range(10_000):
        publisher.publish(created(number, size=7_500))
    assert publisher.stats().under_way == 10_001
    assert _resident() - before < 10 * 1024 * 1024


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


def test_many_dead_publishers_with_little_leave_room(make: Make, tmp_path: Path) -> None:
    spool = Spool(tmp_path, limit_bytes=1024 * 1024)
    for number in range(40):  # each one's segment could have grown to a sixteenth of the limit
        dead = MemoryPublisher(spool=spool, topic="other")
        dead.stall()
        dead.publish(created(number))
        dead.close(0)
    publisher = make(spool)
    assert publisher.publish(created(1)).result(0).offset == 0


def test_many_living_publishers_with_little_leave_room(make: Make, tmp_path: Path) -> None:
    spool = Spool(tmp_path, limit_bytes=1024 * 1024)
    publishers = [make(spool, stalled=True) for _ in range(40)]
    assert not any(publisher.publish(created(1)).done() for publisher in publishers)


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
    assert [number for number, receipt in enumerate(receipts) if _reason(receipt) == "spool_damaged"] == lost
    publisher.close(0)
    stats = publisher.stats()
    assert (stats.failed_by_reason, stats.spooled, stats.under_way) == ({"spool_damaged": len(lost)}, 0, 0)
    assert sorted(failure.event_id for failure in told) == sorted(receipts[number].event_id for number in lost)


def _reason(receipt: Receipt) -> str | None:
    try:
        receipt.result(0)
    except DeliveryFailed as error:
        return error.reason
    return None


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
    assert _reason(receipt) == "spool_failed"


def _used(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def _resident() -> int:
    with open("/proc/self/status") as status:  # noqa: PTH123
        line = next(line for line in status if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024
