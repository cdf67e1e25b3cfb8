"""The right log: what is another log, or has lost records, stops the consumer before it applies anything, and says what to do."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined]
from psycopg import conninfo, sql

from milepost.consumer import kafka
from milepost.consumer.database import connect
from milepost.consumer.log import create_topic, find
from milepost.embedded import Stack
from tests.chaos.check import Log, differences
from tests.chaos.process import wait_until
from tests.chaos.servers import Servers
from tests.chaos.traffic import checkpoint
from tests.chaos.world import ONE_EACH, PARTITIONS, World
from tests.fixtures.dump import Dump, dump

COULD_NOT = 3
REPLAY = "rebuild the view in an empty database with: milepost replay --into DATABASE"


@pytest.fixture
def world(servers: Servers, tmp_path: Path) -> Iterator[World]:
    """One consumer that has applied two events of each partition, and still runs."""
    with World(servers, tmp_path, [1]) as made:
        publish(made, 2)
        made.settle()
        made.consumers[0].child.mark()
        yield made


def publish(world: World, number: int) -> None:
    world.publish(checkpoint("acme", session_id, each) for each in range(number) for session_id in ONE_EACH)


def stopped(world: World) -> Dump:
    """Stop the consumer as an operator does, and give what the view holds."""
    child = world.consumers[0].child
    child.signal(signal.SIGTERM)
    assert child.wait() == 0
    child.mark()
    return dump(world.database)


def assert_refused(world: World, before: Dump, *said: str) -> None:
    """The consumer ends with 3 and one line that says all this; the view is as before."""
    child = world.consumers[0].child
    assert child.wait() == COULD_NOT
    (line,) = [line for line in child.said().splitlines() if line.startswith("milepost: ")]
    assert [each for each in said if each not in line] == [], line
    assert dump(world.database) == before


def recreate(world: World) -> None:
    client = kafka.admin(world.servers.kafka)
    client.delete_topics([world.topic])[world.topic].result(10)
    wait_until(lambda: find(client, world.servers.kafka, world.topic) is None, "the topic to be gone")
    create_topic(client, world.servers.kafka, world.topic, PARTITIONS, 1)


def topic_id(world: World) -> str:
    found = find(kafka.admin(world.servers.kafka), world.servers.kafka, world.topic)
    assert found is not None
    return found.topic_id


def test_a_topic_created_again_while_the_consumer_was_away(world: World) -> None:
    before, old = stopped(world), topic_id(world)
    recreate(world)
    publish(world, 4)
    world.consumers[0].child.start()
    assert_refused(world, before, old, topic_id(world), "created again under the old name", REPLAY)


def test_a_topic_created_again_while_the_consumer_runs(world: World) -> None:
    before = dump(world.database)
    recreate(world)
    publish(world, 4)
    # which of the two it meets first: the topic without its name, or the other one under it
    child = world.consumers[0].child
    assert child.wait() == COULD_NOT
    assert dump(world.database) == before
    (line,) = [line for line in child.said().splitlines() if line.startswith("milepost: ")]
    assert any(each in line for each in ("any more", "created again", "does not hold it")), line


def test_a_topic_deleted_while_the_consumer_runs(world: World) -> None:
    before = dump(world.database)
    client = kafka.admin(world.servers.kafka)
    client.delete_topics([world.topic])[world.topic].result(10)
    assert_refused(
        world, before, f"Kafka has no topic {world.topic} any more; the view was left as it is", REPLAY.split(": ")[1]
    )


def remove_before(world: World, offset: int) -> None:
    client = kafka.admin(world.servers.kafka)
    for future in client.delete_records([TopicPartition(world.topic, 2, offset)]).values():
        future.result(10)


def test_records_removed_before_they_were_read(world: World) -> None:
    before = stopped(world)
    publish(world, 3)
    remove_before(world, 4)
    world.consumers[0].child.start()
    assert_refused(
        world,
        before,
        "partition 2",
        "begins at offset 4, the view stands at 2: 2 records were removed before they were read",
        "set retention.ms and retention.bytes of the topic to -1",
        "rebuild the view from a complete copy of the log",
    )


def test_records_removed_while_the_consumer_could_not_read(world: World) -> None:
    child, proxy = world.consumers[0].child, world.consumers[0].kafka
    before = dump(world.database)
    proxy.refuse()
    publish(world, 3)
    remove_before(world, 4)
    proxy.accept()
    assert child.wait() == COULD_NOT
    (line,) = [line for line in child.said().splitlines() if line.startswith("milepost: ")]
    assert "partition 2" in line
    rows = {row[0]: row for row in dump(world.database)["partitions"]}
    assert rows["2"] == {row[0]: row for row in before["partitions"]}["2"]


def test_records_removed_after_they_were_read_matter_to_nobody(world: World) -> None:
    remove_before(world, 2)
    publish(world, 1)
    world.settle()
    assert world.consumers[0].child.is_alive
    with psycopg.connect(world.database) as connection:
        assert connection.execute("select distinct next_offset from milepost.partitions").fetchall() == [(3,)]


@pytest.mark.parametrize("running", [True, False], ids=["running", "away"])
def test_partitions_added(world: World, running: bool) -> None:
    before = dump(world.database) if running else stopped(world)
    client = kafka.admin(world.servers.kafka)
    for future in client.create_partitions([NewPartitions(world.topic, PARTITIONS + 2)]).values():
        future.result(10)
    world.consumers[0].child.start()
    assert_refused(world, before, f"{PARTITIONS} partitions", f"{PARTITIONS + 2} partitions", "milepost topic migrate")


def test_a_view_that_is_ahead_of_the_log(world: World) -> None:
    stopped(world)
    with psycopg.connect(world.database) as connection:
        connection.execute("update milepost.partitions set next_offset = 40 where partition = 1")
    before = dump(world.database)
    publish(world, 1)
    world.consumers[0].child.start()
    assert_refused(
        world, before, "partition 1", "ends at offset 3, the view stands at 40", "truncated or is another one", REPLAY
    )


def test_a_database_restored_from_an_older_backup_goes_on_from_its_own_position(world: World) -> None:
    stopped(world)
    backup = f"backup_{world.topic.rpartition('.')[2]}"
    name = str(conninfo.conninfo_to_dict(world.database)["dbname"])
    copy(world, name, backup)
    world.consumers[0].child.start()
    publish(world, 5)
    world.settle()
    stopped(world)
    world.servers.drop(world.database)
    copy(world, backup, name)
    publish(world, 2)
    world.consumers[0].child.start()
    world.settle()
    assert world.differences() == []
    with closing(connect(world.database)) as connection:
        assert connection.execute("select sum(events) from milepost.partitions").fetchone() == (9 * PARTITIONS,)


def copy(world: World, source: str, target: str) -> None:
    with psycopg.connect(world.servers.postgres, autocommit=True) as connection:
        connection.execute(sql.SQL("create database {} template {}").format(*map(sql.Identifier, (target, source))))


def test_another_cluster_behind_the_same_address(world: World, stack: Stack) -> None:
    before = stopped(world)
    other = stack.environment()["MILEPOST_KAFKA"]
    create_topic(kafka.admin(other), other, world.topic, PARTITIONS, 1)
    proxy = world.consumers[0].kafka
    proxy.point_at(other)
    world.consumers[0].child.start()
    mine, theirs = Log(world.servers.kafka, world.topic).identity, Log(other, world.topic).identity
    assert_refused(
        world, before, mine.cluster_id, theirs.cluster_id, "another cluster", "point --kafka at the right one", REPLAY
    )


def test_the_checker_needs_no_consumer(world: World) -> None:
    """Two views of one log: the one that was not filled differs."""
    empty, fresh = world.servers.database(), world.servers.database()
    try:
        found = differences(world.log, empty, fresh)
        assert any(each.startswith("model: ") and each.endswith("of the view") for each in found)
        assert not any(each.endswith("of the replay") for each in found)
    finally:
        world.servers.drop(empty)
        world.servers.drop(fresh)
