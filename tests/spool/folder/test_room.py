"""How much room is taken, on the disk and in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from milepost.producer import Spool
from milepost.producer.testing import MemoryPublisher
from milepost.schemas import DeliveryFailed
from tests.producer.helpers import created, header
from tests.spool.folder.ground import Make


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


def test_memory_does_not_grow_with_what_waits(make: Make, tmp_path: Path) -> None:
    publisher = make(tmp_path, stalled=True)
    publisher.publish(created(size=7_500))
    before = _resident()
    for number in range(10_000):
        publisher.publish(created(number, size=7_500))
    assert publisher.stats().under_way == 10_001
    assert _resident() - before < 10 * 1024 * 1024


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


def _used(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def _resident() -> int:
    with open("/proc/self/status") as status:  # noqa: PTH123
        line = next(line for line in status if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024
