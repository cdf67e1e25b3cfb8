"""Whatever a copy lacks, has twice, changed or put elsewhere is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest
from confluent_kafka import Message

from milepost.consumer import kafka
from milepost.consumer.log import describe_settings
from milepost.consumer.topic import MigrationRequest, migrate_topic, migration, target
from milepost.consumer.topic.copy import Copier
from milepost.consumer.topic.placement import Placement, at
from milepost.consumer.topic.verify import Chains, differences
from milepost.schemas import CheckpointCreated
from milepost.schemas.partitioning import partition_of
from milepost.schemas.wire import Headers
from tests.fixtures.publishing import produce
from tests.topic.reading import Found

PLACEMENT = Placement(4, 8)


class Record:
    """A record of the log, without Kafka."""

    def __init__(self, found: Found) -> None:
        self.partition = lambda: found.partition
        self.key = lambda: found.key
        self.value = lambda: found.value
        self.timestamp = lambda: (2, found.time)
        self.headers = lambda: list(found.headers)


def a_message(found: Found) -> Message:
    return cast(Message, Record(found))


SOURCE = [
    Found(partition_of(key, 4), number, key, b"%d" % number, (("a", b"1"), ("a", None)))
    for number, key in enumerate([b"k%d" % (number % 6) for number in range(60)])
] + [Found(3, 60, None, b"no key", ())]
COPY = [found._replace(partition=PLACEMENT.of(a_message(found))) for found in SOURCE]


def compared(copy: list[Found]) -> list[str]:
    chains = Chains(PLACEMENT, PLACEMENT.of), Chains(PLACEMENT, at)
    for one, records in zip(chains, (SOURCE, copy), strict=True):
        for found in records:
            one.add(a_message(found))
    return differences(*chains)


def changed(**what: object) -> Callable[[list[Found]], list[Found]]:
    return lambda copy: [*copy[:30], copy[30]._replace(**what), *copy[31:]]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "damage",
    [
        lambda copy: copy[1:],
        lambda copy: copy[:-1],
        lambda copy: [*copy, copy[0]],
        lambda copy: [*copy[:10], copy[16], *copy[11:16], copy[10], *copy[17:]],
        changed(value=b"31"),
        changed(value=None),
        changed(time=31),
        changed(key=b"k1"),
        changed(headers=(("a", None), ("a", b"1"))),
        changed(headers=(("a", b"1"), ("a", b""))),
        changed(headers=(("a", b"1"),)),
        changed(partition=7),
    ],
)
def test_a_damaged_copy_is_told_from_a_whole_one(damage: Callable[[list[Found]], list[Found]]) -> None:
    assert compared(COPY) == []
    assert compared(damage(COPY)) != []


@pytest.mark.parametrize("new", [4, 5, 6, 7, 8, 12])
def test_a_record_is_where_its_key_goes_exactly_when_it_was(new: int) -> None:
    placement = Placement(4, new)
    for number in range(200):
        key = b"acme/s%d" % number
        for partition in range(4):
            place = placement.of(a_message(Found(partition, 0, key, None, ())))
            assert 0 <= place < new
            assert (partition_of(key, new) == place) == (partition_of(key, 4) == partition)
    assert [placement.of(a_message(Found(partition, 0, None, None, ()))) for partition in range(4)] == [0, 1, 2, 3]


class Careless(Copier):
    """Loses the fifth record."""

    number = 0

    def add(self, message: Message, partition: int, stop: Callable[[], bool]) -> Headers:
        """Every record but one."""
        self.number += 1
        return super().add(message, partition, stop) if self.number != 5 else []


def test_a_copy_that_lacks_a_record_stays_unfinished(
    kafka_servers: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    produce(
        kafka_servers,
        topic,
        [CheckpointCreated(tenant_id="acme", session_id=f"s{number}", state=b"1") for number in range(9)],
    )
    monkeypatch.setattr(migration, "Copier", Careless)
    wide = f"{topic}.wide"
    request = MigrationRequest(kafka=kafka_servers, topic=topic, to=wide, partitions=8)
    done = migrate_topic(request, stop=lambda: False, tell=lambda what, number, total: None)
    assert len(done.differences) == 2
    assert done.differences[0].startswith("partition ")
    assert done.differences[1].startswith("key acme/s")
    client = kafka.admin(kafka_servers)
    assert target.is_unfinished(describe_settings(client, kafka_servers, wide))
