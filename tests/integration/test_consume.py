"""`milepost consume` on the real servers: catching up, stopping, sharing, being killed."""

from __future__ import annotations

import json
import os
import random
import signal
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import psycopg

from milepost.schemas import CheckpointCreated, Event, SessionDeleted
from tests.fixtures.commands import Milepost, stop, wait_until
from tests.fixtures.dump import dump
from tests.fixtures.publishing import produce

SESSIONS = 40


def made(number: int, start: int = 0) -> list[Event]:
    """Checkpoints over many sessions, with a deletion now and then and one event in ten sent twice."""
    chosen = random.Random(start)
    events: list[Event] = []
    for step in range(start, start + number):
        session_id = f"session-{chosen.randrange(SESSIONS)}"
        if step % 97 == 96:
            events.append(SessionDeleted(tenant_id="acme", session_id=session_id))
            continue
        state = f'{{"$type":0,"step":{step},"text":"{"x" * chosen.randrange(2_000)}"}}'.encode()
        events.append(CheckpointCreated(tenant_id="acme", session_id=session_id, state=state, step=step))
        if step % 10 == 0:
            events.append(events[-1])
    return events


def lag(command: Milepost) -> int:
    return int(json.loads(command.run("status", "--json"))["lag"])


def totals(database: str) -> tuple[int, ...]:
    with psycopg.connect(database) as connection:
        row = connection.execute(
            "select sum(events), sum(applied), sum(duplicates), sum(next_offset), (select count(*) from milepost.history) "
            "from milepost.partitions"
        ).fetchone()
    assert row is not None
    return tuple(int(value) for value in row)


def rebuilt(command: Milepost, other_database: str) -> Milepost:
    """A view of the same log in another database, built at one go."""
    fresh = Milepost({**command.environment, "MILEPOST_DATABASE": other_database})
    fresh.run("setup", "--partitions", "4")
    fresh.run("consume", "--until-caught-up")
    return fresh


def test_it_ends_at_the_logs_end_as_it_was_at_the_start(
    milepost: Milepost, kafka_servers: str, topic: str, database: str
) -> None:
    events = made(1_500)
    produce(kafka_servers, topic, events)
    report = json.loads(milepost.run("consume", "--until-caught-up", "--json"))
    assert report["events"] == len(events)
    assert report["duplicates"] == 150 - len([1 for step in range(0, 1_500, 10) if step % 97 == 96])
    assert report["quarantined"] == report["fenced"] == 0
    assert lag(milepost) == 0
    assert totals(database) == (len(events), report["applied"], report["duplicates"], len(events), len(events))
    again = json.loads(milepost.run("consume", "--until-caught-up", "--json"))
    assert again["events"] == 0


def test_sigterm_stops_at_a_batchs_end_and_the_next_goes_on_from_there(
    milepost: Milepost, kafka_servers: str, topic: str, database: str, other_database: str, tmp_path: Path
) -> None:
    produce(kafka_servers, topic, made(6_000))
    with milepost.running("consume", log=tmp_path / "log") as process:
        wait_until(lambda: totals(database)[0] > 0, "the first batch")
        assert stop(process) == 0, (tmp_path / "log").read_text()
    assert 0 < totals(database)[0] == totals(database)[4] == totals(database)[3]
    milepost.run("consume", "--until-caught-up")
    rebuilt(milepost, other_database)
    assert dump(database) == dump(other_database)


def test_a_lowered_policy_reaches_a_view_to_which_nothing_comes(
    milepost: Milepost, kafka_servers: str, topic: str, tmp_path: Path
) -> None:
    produce(kafka_servers, topic, [CheckpointCreated(tenant_id="t", session_id="s", state=b"{}") for _ in range(5)])

    def live() -> int:
        return len(json.loads(milepost.run("list", "t", "s", "--json")))

    with milepost.running("consume", log=tmp_path / "log") as process:
        wait_until(lambda: live() == 5, "the checkpoints")
        milepost.run("retention", "set", "--newest", "2")
        wait_until(lambda: live() == 2, "the sweep")
        assert stop(process) == 0


def test_processes_come_and_go_and_no_event_is_lost_or_doubled(
    milepost: Milepost, kafka_servers: str, topic: str, database: str, other_database: str, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        first = stack.enter_context(milepost.running("consume", "--processes", "2", log=tmp_path / "first"))
        produce(kafka_servers, topic, made(2_000))
        second = stack.enter_context(milepost.running("consume", log=tmp_path / "second"))
        produce(kafka_servers, topic, made(2_000, start=2_000))
        wait_until(lambda: "assigned" in (tmp_path / "second").read_text(), "a share for the second")
        assert stop(first) == 0, (tmp_path / "first").read_text()
        produce(kafka_servers, topic, made(2_000, start=4_000))
        wait_until(lambda: lag(milepost) == 0, "the end of the log")
        assert stop(second, signal.SIGINT) == 0, (tmp_path / "second").read_text()
    rebuilt(milepost, other_database)
    assert dump(database) == dump(other_database)


def test_killed_workers_are_started_again_and_nothing_is_lost_or_doubled(
    milepost: Milepost, kafka_servers: str, topic: str, database: str, other_database: str, tmp_path: Path
) -> None:
    with milepost.running("consume", "--processes", "2", log=tmp_path / "log") as process:
        for round_number in range(3):
            produce(kafka_servers, topic, made(1_500, start=round_number * 1_500))
            wait_until(lambda: bool(workers(process.pid)), "a worker")
            os.kill(workers(process.pid)[0], signal.SIGKILL)
        wait_until(lambda: lag(milepost) == 0, "the end of the log")
        assert stop(process) == 0, (tmp_path / "log").read_text()
    rebuilt(milepost, other_database)
    assert dump(database) == dump(other_database)


def workers(pid: int) -> list[int]:
    """The worker processes of a consumer, without Python's own helper processes."""
    found = []
    for child in psutil.Process(pid).children():
        # one that was just killed has no command line any more
        with suppress(psutil.Error):
            if any("spawn_main" in part for part in child.cmdline()):
                found.append(child.pid)
    return found


def is_alive(process: psutil.Process) -> bool:
    """Whether a process still runs; one that nobody has reaped yet does not."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_workers_end_when_their_parent_is_killed(milepost: Milepost, tmp_path: Path) -> None:
    with milepost.running("consume", "--processes", "2", log=tmp_path / "log") as process:
        wait_until(lambda: len(workers(process.pid)) == 2, "two workers")
        children = [psutil.Process(pid) for pid in workers(process.pid)]
        stop(process, signal.SIGKILL)
        wait_until(lambda: not any(is_alive(child) for child in children), "the end of the workers")
