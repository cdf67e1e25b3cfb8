"""What a publisher leaves in the folder, and who sends it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from uuid import uuid4

import pytest

from milepost.producer.spool.survey import survey
from milepost.producer.testing import MemoryPublisher
from milepost.schemas import CheckpointCreated, DeliveryFailed, Event, SessionDeleted
from tests.producer.helpers import created, header, steps
from tests.spool.folder.ground import Make, leave


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
