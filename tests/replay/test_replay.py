"""`milepost replay`: the rebuilt view equals the live one, however it was interrupted."""

from __future__ import annotations

import json
import random
import signal
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from confluent_kafka import TopicPartition

from milepost.consumer import kafka
from milepost.consumer.policies import PolicyRow
from milepost.consumer.replay import ReplayRequest, replay, shelf
from milepost.schemas import CheckpointCreated, Event, SessionDeleted
from tests.fixtures.commands import Milepost, stop, wait_until
from tests.fixtures.publishing import produce, produce_raw

# once there are a thousand events
DISK_IS_FULL = """
create function full_disk() returns trigger language plpgsql as $$
begin
    if (select sum(events) from milepost.partitions) > 1000 then
        raise exception 'could not extend file: No space left on device' using errcode = 'disk_full';
    end if;
    return null;
end
$$;
create trigger full_disk before insert on milepost.history for each statement execute function full_disk();
"""


def made(number: int, seed: int) -> list[Event]:
    """Checkpoints with repeated ids, deletions, late events and pins."""
    chosen = random.Random(seed)
    events: list[Event] = []
    for step in range(number):
        session_id = f"s{chosen.randrange(20)}"
        if chosen.random() < 0.02:
            events.append(SessionDeleted(tenant_id="acme", session_id=session_id))
        elif events and chosen.random() < 0.05:
            events.append(chosen.choice(events))
        else:
            state = f'{{"$type":0,"step":{step},"text":"{"x" * chosen.randrange(3_000)}"}}'.encode()
            events.append(
                CheckpointCreated(
                    tenant_id="acme", session_id=session_id, state=state, step=step, pinned=chosen.random() < 0.02
                )
            )
    return events


@pytest.fixture
def live(milepost: Milepost, kafka_servers: str, topic: str) -> Milepost:
    """A live view that has everything, under a policy of five."""
    milepost.run("retention", "set", "--newest", "5")
    milepost.run("retention", "set", "--newest", "2", "--tenant", "acme", "--session", "s3")
    produce(kafka_servers, topic, made(3_000, seed=1))
    produce_raw(kafka_servers, topic, [(b"acme/s1", b"no event", [("a", b"\xff"), ("a", None)])])
    milepost.run("consume", "--until-caught-up")
    return milepost


def into(command: Milepost, database: str, *more: str) -> tuple[str, ...]:
    live_view = command.environment["MILEPOST_DATABASE"]
    return ("replay", "--into", database, "--policies-from", live_view, *more, "--json")


@pytest.mark.parametrize("processes", ["1", "2"])
def test_it_equals_the_live_view(live: Milepost, empty_database: str, database: str, processes: str) -> None:
    report = json.loads(live.run(*into(live, empty_database, "--processes", processes)))
    assert (report["complete"], report["resumed"], report["quarantined"], report["events"]) == (True, False, 1, 3_001)
    live.run("compare", database, empty_database)
    with psycopg.connect(empty_database) as connection:
        row = connection.execute("select count(*) from milepost.checkpoints").fetchone()
    assert row == (report["states_written"],)
    assert live.run("compare", database, "--digest") == live.run("compare", empty_database, "--digest")


def test_a_killed_replay_goes_on_and_ends_equal(
    live: Milepost, kafka_servers: str, topic: str, empty_database: str, database: str, tmp_path: Path
) -> None:
    produce(kafka_servers, topic, made(6_000, seed=2))
    live.run("consume", "--until-caught-up")

    def events() -> int:
        with psycopg.connect(empty_database) as connection:
            if connection.execute("select to_regclass('milepost.partitions')").fetchone() == (None,):
                return 0
            row = connection.execute("select coalesce(sum(events), 0)::int from milepost.partitions").fetchone()
            return int(row[0]) if row is not None else 0

    before = 0
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
        with live.running(*into(live, empty_database), log=tmp_path / "log") as process:
            wait_until(lambda then=before: events() > then or process.poll() is not None, "some progress")  # type: ignore[misc]
            stop(process, number)
        assert events() >= before
        before = events()
    report = json.loads(live.run(*into(live, empty_database)))
    assert report["complete"] is True
    live.run("compare", database, empty_database)


def test_a_full_disk_ends_it_and_once_there_is_room_it_goes_on(
    live: Milepost, kafka_servers: str, topic: str, other_database: str, database: str
) -> None:
    # more than two batches, so that one is committed before the disk is full however the log is cut
    produce(kafka_servers, topic, made(3_500, seed=3))
    live.run("consume", "--until-caught-up")
    with psycopg.connect(other_database, autocommit=True) as connection:
        connection.execute(DISK_IS_FULL)
    done = live.result(*into(live, other_database))
    assert (done.returncode, b"No space left on device" in done.stderr) == (3, True)
    with psycopg.connect(other_database, autocommit=True) as connection:
        assert connection.execute("select sum(events) > 0 from milepost.partitions").fetchone() == (True,)
        connection.execute("drop function full_disk cascade")
    report = json.loads(live.run(*into(live, other_database)))
    assert (report["complete"], report["resumed"]) == (True, True)
    assert 0 < report["events"] < 6_501
    live.run("compare", database, other_database)


def test_states_that_do_not_fit_into_memory_are_read_once_more(
    live: Milepost, kafka_servers: str, topic: str, empty_database: str, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelf.Shelf.__init__, "__defaults__", (20_000,))
    rows = (PolicyRow(None, None, 5, None, None), PolicyRow("acme", "s3", 2, None, None))
    report = replay(ReplayRequest(kafka=kafka_servers, topic=topic, database=empty_database, policies=rows))
    assert report.complete
    live.run("compare", database, empty_database)


def test_until_takes_the_log_as_it_was(
    live: Milepost, kafka_servers: str, topic: str, empty_database: str, other_database: str, database: str
) -> None:
    with psycopg.connect(database) as connection:
        row = connection.execute("select max(log_time) from milepost.partitions").fetchone()
    assert row is not None
    live.run("compare", database, database)
    at_first = live.run("compare", database, "--digest")
    produce(kafka_servers, topic, made(500, seed=3))
    live.run("consume", "--until-caught-up")
    moment = row[0].astimezone(UTC).isoformat()
    report = json.loads(live.run(*into(live, empty_database, "--until", moment)))
    assert report["events"] == 3_001
    assert live.run("compare", empty_database, "--digest") == at_first
    # a cut view may go on
    onwards = Milepost({**live.environment, "MILEPOST_DATABASE": empty_database})
    onwards.run("consume", "--until-caught-up")
    live.run("compare", database, empty_database)


def test_until_a_position(live: Milepost, empty_database: str, topic: str) -> None:
    report = json.loads(
        live.run(*into(live, empty_database, *(f"--until-position={topic}/{partition}@9" for partition in range(4))))
    )
    assert report["events"] == 40
    said = live.result(*into(live, empty_database, f"--until-position={topic}/0@99999")).stderr.decode()
    assert "expected an offset below" in said


def test_a_database_that_holds_a_view_is_refused(live: Milepost, database: str, empty_database: str) -> None:
    done = live.result("replay", "--into", database)
    assert done.returncode == 3
    assert b"expected an empty database" in done.stderr
    live.run("replay", "--into", empty_database)
    assert live.result("replay", "--into", empty_database).returncode == 3


def test_an_unfinished_replay_is_not_consumed_into(live: Milepost, empty_database: str) -> None:
    onwards = Milepost({**live.environment, "MILEPOST_DATABASE": empty_database})
    live.run("replay", "--into", empty_database)
    with psycopg.connect(empty_database) as connection:
        connection.execute("""update milepost.view set replay = '{"until": {"0": 1}, "is_cut": false}'""")
    done = onwards.result("consume")
    assert done.returncode == 3
    assert b"run the same milepost replay again" in done.stderr


def test_wrong_usage(live: Milepost, empty_database: str) -> None:
    for arguments, said in (
        (("--until", "yesterday"), "expected a time with its offset"),
        (("--until-position", "nowhere"), "expected a position such as"),
        (("--retain", "5", "--policies-from", "dbname=x"), "found both"),
        (("--until", datetime.now(UTC).isoformat(), "--until-position", "t/0@0"), "found both"),
    ):
        done = live.result("replay", "--into", empty_database, *arguments)
        assert (done.returncode, said in done.stderr.decode()) == (2, True), done.stderr


def test_verify_rebuilds_and_compares_while_the_view_goes_on_moving(
    live: Milepost, kafka_servers: str, topic: str, empty_database: str, database: str, tmp_path: Path
) -> None:
    with live.running("consume", log=tmp_path / "log") as process:
        produce(kafka_servers, topic, made(2_000, seed=4))
        report = json.loads(live.run("replay", "--into", empty_database, "--verify", database, "--json"))
        assert stop(process) == 0
    assert (report["complete"], report["equal"], report["differences"]) == (True, True, [])


def test_verify_names_what_differs(live: Milepost, empty_database: str, database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("update milepost.checkpoints set labels = '{\"k\": \"v\"}' where session_id = 's4'")
    report = json.loads(live.run("replay", "--into", empty_database, "--verify", database, "--json", expect=1))
    assert report["equal"] is False
    assert {(one["table"], one["column"]) for one in report["differences"]} == {("checkpoints", "labels")}


def test_a_part_holds_what_the_whole_does_of_it_and_cannot_be_continued(
    live: Milepost, kafka_servers: str, topic: str, empty_database: str, other_database: str, database: str
) -> None:
    produce(kafka_servers, topic, [CheckpointCreated(tenant_id="other", session_id="s1", state=b"1")])
    live.run("consume", "--until-caught-up")
    for target, part in (
        (empty_database, ("--tenant", "acme")),
        (other_database, ("--tenant", "acme", "--session", "s3")),
    ):
        live.run(*into(live, target, *part))
        partial = Milepost({**live.environment, "MILEPOST_DATABASE": target})
        for command in (("history", "acme", "s3", "--json"), ("list", "acme", "s3", "--json")):
            assert partial.run(*command) == live.run(*command)
        assert partial.run("get", "acme", "s3") == live.run("get", "acme", "s3")
        assert json.loads(partial.run("sessions", "other", "--json")) == []
        done = partial.result("consume")
        assert (done.returncode, b"cannot be continued" in done.stderr) == (3, True)
    assert [entry["session_id"] for entry in json.loads(partial.run("sessions", "acme", "--json"))] == ["s3"]


def test_follow_goes_on_into_the_live_log(
    live: Milepost, kafka_servers: str, topic: str, empty_database: str, database: str, tmp_path: Path
) -> None:
    arguments = into(live, empty_database, "--follow")
    onwards = Milepost({**live.environment, "MILEPOST_DATABASE": empty_database})
    with live.running(*arguments, log=tmp_path / "log") as process:
        wait_until(lambda: b'"complete":true' in (tmp_path / "log").read_bytes(), "the end of the replay")
        produce(kafka_servers, topic, made(500, seed=5))
        wait_until(lambda: json.loads(onwards.run("status", "--json"))["lag"] == 0, "the live log's end")
        assert stop(process) == 0
    live.run("consume", "--until-caught-up")
    live.run("compare", database, empty_database)


def test_a_log_that_lost_its_beginning(
    live: Milepost, kafka_servers: str, topic: str, empty_database: str, other_database: str
) -> None:
    client = kafka.admin(kafka_servers)
    for future in client.delete_records([TopicPartition(topic, 0, 7), TopicPartition(topic, 2, 3)]).values():
        future.result(10)
    done = live.result(*into(live, empty_database))
    assert done.returncode == 3
    assert b"10 records are gone from partitions 0, 2" in done.stderr
    assert b"--accept-missing" in done.stderr
    report = json.loads(live.run(*into(live, empty_database, "--accept-missing")))
    assert (report["complete"], report["events"]) == (True, 2_991)
    onwards = Milepost({**live.environment, "MILEPOST_DATABASE": empty_database})
    onwards.run("consume", "--until-caught-up")
