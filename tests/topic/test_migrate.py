"""`milepost topic migrate`: the copy holds every byte, in each session's order, and a view of it equals the old one."""

from __future__ import annotations

import json
import random
import signal
from itertools import groupby, pairwise
from pathlib import Path
from uuid import UUID

import psycopg
import pytest

from milepost.consumer import kafka
from milepost.consumer.log import create_topic
from milepost.schemas import CheckpointCreated, Event, SessionDeleted, encode
from milepost.schemas.partitioning import partition_of
from tests.fixtures.commands import Milepost, stop, wait_until
from tests.fixtures.publishing import produce, produce_raw
from tests.fixtures.raw_kafka import RawRecord, produce_bytes
from tests.topic.reading import read, settings, topic_with_times

ODD: list[tuple[bytes | None, bytes | None, list[tuple[str, str | bytes | None]]]] = [
    (b"acme/s1", b"no event", [("a", b"\xff\x00"), ("a", None), ("a", b""), ("\u00e9", b"x")]),
    (b"acme/s1", None, []),
    (b"acme/s1", b"", [("ce_type", b"milepost.unknown.v9")]),
    (b"", b"an empty key", []),
    (None, b"no key", [("a", b"1")]),
    (None, None, []),
    (b"\xff\xfe", b"\x00\xff", []),
    (b"acme/large", b'"' + b"x" * (16 * 1024 * 1024 - 2) + b'"', []),
]


def made(number: int, seed: int) -> list[Event]:
    chosen = random.Random(seed)
    events: list[Event] = []
    for step in range(number):
        session_id = f"s{chosen.randrange(40)}"
        if step % 60 == 59:
            events.append(SessionDeleted(tenant_id="acme", session_id=session_id, reason="asked to"))
        elif events and step % 20 == 19:
            events.append(chosen.choice(events))
        else:
            state = f' {{"$type":0,"n":1.0,"step":{step}}}'.encode()
            events.append(CheckpointCreated(tenant_id="acme", session_id=session_id, state=state))
    return events


@pytest.fixture
def live(milepost: Milepost, kafka_servers: str, topic: str) -> Milepost:
    """A view with the odd records between others."""
    produce(kafka_servers, topic, made(1_000, seed=1))
    produce_raw(kafka_servers, topic, ODD)
    produce(kafka_servers, topic, made(1_000, seed=2))
    milepost.run("retention", "set", "--newest", "3")
    milepost.run("consume", "--until-caught-up")
    return milepost


@pytest.fixture
def wide(topic: str) -> str:
    """The name of the wider topic."""
    return f"{topic}.wide"


def migrate(command: Milepost, to: str, partitions: int, *more: str, expect: int = 0) -> dict[str, object]:
    out = command.run("topic", "migrate", "--to", to, f"--partitions={partitions}", "--json", *more, expect=expect)
    return dict(json.loads(out))


def refused(command: Milepost, to: str, partitions: int, *more: str, status: int = 3) -> str:
    done = command.result("topic", "migrate", "--to", to, f"--partitions={partitions}", *more)
    assert done.returncode == status, done.stderr
    return done.stderr.decode()


@pytest.mark.parametrize("partitions", [7, 8])
def test_every_byte_header_and_time_in_order(
    live: Milepost, kafka_servers: str, topic: str, wide: str, partitions: int
) -> None:
    before = read(kafka_servers, topic)
    report = migrate(live, wide, partitions)
    assert (report["records"], report["differences"], report["numbers_changed"]) == (2_008, [], 0)
    after = read(kafka_servers, wide)
    assert len(before) == len(after) == 2_008
    for key in {record.key for record in before}:
        ours = [record._replace(partition=0) for record in before if record.key == key]
        assert [record._replace(partition=0) for record in after if record.key == key] == ours
        if key is not None:
            places = {record.partition for record in after if record.key == key}
            assert places == {partition_of(key, partitions)}
    for _, records in groupby(after, key=lambda record: record.partition):
        assert all(one.time <= other.time for one, other in pairwise(records))
    # the source was never touched
    assert read(kafka_servers, topic) == before


def test_a_view_of_the_copy_is_equal_but_for_positions(
    live: Milepost, wide: str, empty_database: str, database: str
) -> None:
    migrate(live, wide, 6)
    live.run("replay", "--topic", wide, "--into", empty_database, "--policies-from", database)
    live.run("compare", database, empty_database, "--ignore-positions")
    live.run("compare", database, empty_database, expect=1)
    digests = {live.run("compare", each, "--digest", "--ignore-positions") for each in (database, empty_database)}
    assert len(digests) == 1
    assert digests != {live.run("compare", database, "--digest")}


def test_a_record_that_lay_in_a_wrong_partition_stays_in_quarantine(
    live: Milepost, kafka_servers: str, topic: str, wide: str, empty_database: str, database: str
) -> None:
    encoded = encode(CheckpointCreated(tenant_id="acme", session_id="s1", state=b"1"), source="/runtimes/test")
    headers = [(name.encode(), value.encode() if isinstance(value, str) else value) for name, value in encoded.headers]
    for partition in range(4):
        produce_bytes(kafka_servers, topic, [RawRecord(encoded.key, encoded.value, headers)] * 2, partition)
    live.run("consume", "--until-caught-up")
    migrate(live, wide, 5)
    live.run("replay", "--topic", wide, "--into", empty_database, "--policies-from", database)
    live.run("compare", database, empty_database, "--ignore-positions")
    with psycopg.connect(empty_database) as connection:
        found = connection.execute(
            "select count(*) from milepost.quarantine where reason = 'wrong_partition'"
        ).fetchone()
    assert found == (6,)


def test_the_copy_is_a_log_like_any_other(
    live: Milepost, kafka_servers: str, wide: str, empty_database: str, topic: str
) -> None:
    migrate(live, wide, 8)
    found, source = settings(kafka_servers, wide), settings(kafka_servers, topic)
    assert {name for name in found if found[name] != source[name]} == set()
    onwards = Milepost({**live.environment, "MILEPOST_DATABASE": empty_database, "MILEPOST_TOPIC": wide})
    onwards.run("setup")
    onwards.run("publish", "acme", "s1", "--checkpoint-id", "after", stdin=b"[1]")
    onwards.run("consume", "--until-caught-up")
    assert onwards.run("get", "acme", "s1", "after") == b"[1]"
    newest = max(record.time for record in read(kafka_servers, topic))
    assert max(record.time for record in read(kafka_servers, wide)) > newest


def test_a_point_in_time_is_a_point_in_the_copy(
    live: Milepost, kafka_servers: str, topic: str, wide: str, empty_database: str, other_database: str
) -> None:
    migrate(live, wide, 6)
    times = sorted(record.time for record in read(kafka_servers, topic))
    moment = f"{psycopg_time(other_database, times[1_200])}"
    expected = sum(time <= times[1_200] for time in times)
    report = json.loads(live.run("replay", "--topic", wide, "--into", empty_database, "--until", moment, "--json"))
    assert report["events"] == expected


def psycopg_time(database: str, milliseconds: int) -> str:
    with psycopg.connect(database) as connection:
        row = connection.execute(
            "select to_char(to_timestamp(%s::numeric / 1000) at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS')",
            [milliseconds],
        ).fetchone()
    assert row is not None
    return f"{row[0]}+00:00"


def test_settings_of_the_source_are_taken_over(live: Milepost, kafka_servers: str, wide: str) -> None:
    name = f"{wide}.source"
    create_topic(
        *(kafka.admin(kafka_servers), kafka_servers, name, 2, 1),
        config={**dict(settings_of_a_log()), "min.insync.replicas": "1", "segment.bytes": "200000000"},
    )
    produce(kafka_servers, name, made(10, seed=3))
    migrate(live, wide, 4, "--topic", name)
    found = settings(kafka_servers, wide)
    assert (found["segment.bytes"], found["max.message.bytes"]) == ("200000000", "20000000")


def settings_of_a_log() -> dict[str, str]:
    return {
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "max.message.bytes": "20000000",
        "message.timestamp.type": "LogAppendTime",
    }


def test_an_empty_log_and_an_empty_target(milepost: Milepost, kafka_servers: str, wide: str) -> None:
    create_topic(kafka.admin(kafka_servers), kafka_servers, wide, 8, 1)
    assert "expected 6 partitions of the empty topic" in refused(milepost, wide, 6)
    assert migrate(milepost, wide, 8)["records"] == 0
    assert settings(kafka_servers, wide)["message.timestamp.type"] == "LogAppendTime"


def test_what_is_refused(live: Milepost, kafka_servers: str, topic: str, wide: str) -> None:
    assert "expected 4 or more" in refused(live, wide, 3, status=2)
    assert "expected another name" in refused(live, topic, 8, status=2)
    assert "found none" in refused(live, wide, 8, "--topic", f"{topic}.absent")
    assert "refused the topic" in refused(live, wide, 8, "--replication-factor", "9")
    migrate(live, wide, 8)
    # a finished copy is somebody's log: --replace does not delete it
    assert "found one with records" in refused(live, wide, 8, "--replace")
    assert len(read(kafka_servers, wide)) == 2_008
    other = topic_with_times(kafka_servers, 4, read(kafka_servers, topic)[:10])
    assert "found one with records" in refused(live, other, 4, "--replace")
    assert "message.timestamp.type: expected LogAppendTime" in refused(live, f"{wide}.two", 8, "--topic", other)


def test_a_name_of_a_header_that_is_not_utf8_is_refused_by_its_position(
    live: Milepost, kafka_servers: str, topic: str, wide: str
) -> None:
    produce_bytes(kafka_servers, topic, [RawRecord(b"acme/s1", b"{}", [(b"n\xff", b"v")])], partition=2)
    said = refused(live, wide, 8)
    assert f"the record at {topic}/2@" in said
    assert "name is not UTF-8" in said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_copy_is_named_and_replaced(
    live: Milepost, kafka_servers: str, topic: str, wide: str, tmp_path: Path, number: signal.Signals
) -> None:
    produce(kafka_servers, topic, made(20_000, seed=4))
    arguments = ("topic", "migrate", "--to", wide, "--partitions", "8")

    def begun() -> bool:
        return (
            f"{wide}" in kafka.admin(kafka_servers).list_topics(timeout=10).topics
            and len(read(kafka_servers, wide)) > 0
        )

    with live.running(*arguments, log=tmp_path / "log") as process:
        wait_until(begun, "the first records of the copy")
        status = stop(process, number)
    assert status == (3 if number == signal.SIGTERM else -number)
    assert "unfinished copy" in refused(live, wide, 8)
    assert "unfinished copy" in refused(live, f"{wide}.two", 8, "--topic", wide)
    assert migrate(live, wide, 12, "--replace")["records"] == 22_008
    assert len(read(kafka_servers, wide)) == 22_008


def test_a_source_that_grows_meanwhile_is_noticed(
    live: Milepost, kafka_servers: str, topic: str, wide: str, tmp_path: Path
) -> None:
    produce(kafka_servers, topic, made(20_000, seed=4))
    log = tmp_path / "log"
    with live.running("topic", "migrate", "--to", wide, "--partitions", "8", log=log) as process:
        wait_until(lambda: wide in kafka.admin(kafka_servers).list_topics(timeout=10).topics, "the copy")
        produce(kafka_servers, topic, made(1, seed=5))
        assert process.wait(60) == 3
    assert f"1 records came into {topic} since the copy began; stop its publishers" in log.read_text()
    assert migrate(live, wide, 8, "--replace")["records"] == 22_009


def numbered(session_id: str, number: int) -> tuple[bytes | None, bytes | None, list[tuple[str, str | bytes | None]]]:
    event = CheckpointCreated(tenant_id="acme", session_id=session_id, state=b"1")
    encoded = encode(event, source="/runtimes/test")
    return (
        encoded.key,
        encoded.value,
        [*encoded.headers, ("ce_publisherid", str(UUID(int=1))), ("ce_publisherseq", str(number))],
    )


def test_numbers_of_publishers_that_would_be_taken_for_lost(
    live: Milepost, kafka_servers: str, topic: str, wide: str
) -> None:
    """Two sessions of two old partitions and one new one; the log took the later event first."""
    names = [f"n{number}" for number in range(1_000)]
    first = names[0]
    home = partition_of(f"acme/{first}".encode(), 4), partition_of(f"acme/{first}".encode(), 6)
    places = {
        name: (partition_of(f"acme/{name}".encode(), 4), partition_of(f"acme/{name}".encode(), 6)) for name in names
    }
    second = next(name for name in names if places[name][0] != home[0] and places[name][1] == home[1])
    produce_raw(kafka_servers, topic, [numbered(first, 2)])
    produce_raw(kafka_servers, topic, [numbered(second, 1)])
    assert "choose a multiple of 4 partitions, such as 8" in refused(live, wide, 6)
    assert migrate(live, wide, 8, "--replace")["numbers_changed"] == 0
