"""A partition that cannot go on stops alone, the others go on, and it heals when the cause is gone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from milepost.consumer import intake, isolation
from milepost.consumer.backoff import Backoff
from milepost.consumer.isolation import Isolation, PartitionsFailed
from milepost.consumer.observe import Observer
from milepost.consumer.plan import Plan
from milepost.consumer.records import LogRecord, RawRecord, decoded
from milepost.schemas import MilepostError
from tests.availability.running import Lines, Refusal, Running, config, offsets, publish, sessions
from tests.fixtures.commands import Milepost, wait_until


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(isolation, "_BUG", Backoff(0.2, 0.4))
    monkeypatch.setattr(isolation, "_PASSING", Backoff(0.2, 0.4))
    yield


def stopped(worker: Running) -> dict[int, str]:
    return worker.state.stopped if worker.state is not None else {}


def test_a_fault_of_ours_in_one_partition(
    kafka_servers: str, topic: str, database: str, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = sessions()
    bad, others = of[2], [of[0], of[1], of[3]]
    add = Plan.add
    planted: list[int] = []

    def fails(plan: Plan, record: LogRecord) -> None:
        if record.event is not None and record.event.session_id == bad:
            planted.append(record.offset)
            raise KeyError("planted")
        add(plan, record)

    with monkeypatch.context() as patch, Running(config(kafka_servers, topic, database)) as worker:
        worker.wait_until_reading()
        publish(kafka_servers, topic, bad, *others)
        worker.wait_for_events(4)
        patch.setattr(Plan, "add", fails)
        publish(kafka_servers, topic, bad, *others, bad, *others)
        worker.wait_for_events(10)
        line = lines.wait_for("partition_stopped", 1)
        assert (line.partition, line.offset, line.topic, line.levelname) == (2, 1, topic, "ERROR")
        assert line.exc_info[0] is KeyError
        assert stopped(worker) == {2: "at offset 1: KeyError: 'planted'"}
        # it is tried again and again, and holds nobody up
        tries = len(planted)
        wait_until(lambda: len(planted) >= tries + 2, "more tries")
        publish(kafka_servers, topic, *others)
        worker.wait_for_events(13)
        assert offsets(database) == {0: 4, 1: 4, 2: 1, 3: 4}
        patch.setattr(Plan, "add", add)
        worker.wait_for_events(15)
        wait_until(lambda: stopped(worker) == {}, "it goes on")
    assert offsets(database) == {0: 4, 1: 4, 2: 3, 3: 4}
    assert set(planted) == {1}
    assert worker.counted("milepost_partition_stops_total") == 1
    assert len([line for line in lines.of("partition_stopped") if line.levelname == "ERROR"]) == 1
    assert [line.partition for line in lines.of("partition_goes_on")] == [2]


def test_a_fault_of_ours_in_decoding_names_the_record(
    kafka_servers: str, topic: str, database: str, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = sessions()

    def fails(raw: RawRecord, partitions: int | None) -> LogRecord:
        if (raw.partition, raw.offset) == (1, 2):
            raise RuntimeError("planted")
        return decoded(raw, partitions)

    with monkeypatch.context() as patch, Running(config(kafka_servers, topic, database)) as worker:
        patch.setattr(intake, "decoded", fails)
        publish(kafka_servers, topic, *[of[1]] * 5, *[of[0], of[2], of[3]] * 3)
        worker.wait_for_events(2 + 9)
        line = lines.wait_for("partition_stopped", 1)
        assert (line.partition, line.offset, line.exc_info[0]) == (1, 2, RuntimeError)
        assert offsets(database) == {0: 3, 1: 2, 2: 3, 3: 3}
        patch.setattr(intake, "decoded", decoded)
        worker.wait_for_events(5 + 9)


def test_what_postgres_says_of_one_session(
    kafka_servers: str, topic: str, database: str, refusal: Refusal, lines: Lines
) -> None:
    of = sessions()
    with Running(config(kafka_servers, topic, database)) as worker:
        worker.wait_until_reading()
        # what passes is waited for at first
        refusal.begin("53100", of[3])
        publish(kafka_servers, topic, *of.values(), *of.values())
        worker.wait_for_events(6)
        line = lines.wait_for("partition_stopped", 1)
        assert (line.partition, line.offset) == (3, 0)
        assert offsets(database) == {0: 2, 1: 2, 2: 2, 3: 0}
        refusal.end()
        worker.wait_for_events(8)
        wait_until(lambda: stopped(worker) == {}, "it goes on")
    assert offsets(database) == {0: 2, 1: 2, 2: 2, 3: 2}


def test_who_was_to_catch_up_names_the_partition(
    milepost: Milepost, kafka_servers: str, topic: str, database: str, refusal: Refusal
) -> None:
    of = sessions()
    refusal.begin("P0001", of[1])
    publish(kafka_servers, topic, *of.values())
    done = milepost.result("consume", "--until-caught-up")
    assert done.returncode == 3
    last = done.stderr.decode().splitlines()[-1]
    assert last.startswith(f"milepost: partition 1 of {topic} is stopped at offset 0: Postgres at ")
    assert offsets(database) == {0: 1, 1: 0, 2: 1, 3: 1}


def test_pauses_grow_and_what_is_not_ours_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "_BUG", Backoff(1.0, 300.0))
    now = [0.0]
    found = Isolation("log", Observer(), lambda: now[0])
    error = PartitionsFailed({1})
    error.__cause__ = MilepostError("no")
    pauses = []
    for _ in range(12):
        found.blame(error, {1: 5})
        pauses.append(found.stopped[1].due - now[0])
        assert not found.is_due
        assert found.startable({0: 3, 1: 5}) == {0: 3}
        now[0] = found.stopped[1].due
        assert found.is_due
        assert found.startable({0: 3, 1: 5}) == {0: 3, 1: 5}
        assert not found.is_due
        assert found.is_on
    assert all(0.75 * 2**n <= pause <= 2**n for n, pause in enumerate(pauses[:9]))
    assert all(225 <= pause <= 300 for pause in pauses[9:])
    assert found.startable({0: 3}) == {0: 3}
    assert (found.stopped, found.is_on, found.is_due) == ({}, False, False)
