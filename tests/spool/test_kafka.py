"""The spool in front of the real broker: kill -9, outages, forks, signals, a topic that is missing, the command."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Sequence
from pathlib import Path

from milepost.consumer import kafka
from milepost.consumer.log import create_topic
from milepost.producer import Spool
from milepost.producer.spool import rest
from milepost.producer.spool.survey import survey
from milepost.producer.testing import MemoryRecord
from tests.fixtures.commands import Milepost
from tests.fixtures.proxy import KafkaProxy
from tests.producer.conftest import Make
from tests.producer.helpers import NOBODY, PARTITIONS, created, header, read_log, steps, wait_until

PRELUDE = """
import os, random, signal, sys, threading
from milepost.producer import CheckpointPublisher
from milepost.schemas import CheckpointCreated
def created(number, session="s"):
    state = b'{"n": %d, "pad": "%s"}' % (number, b"x" * (number * 37 % 9_000))
    return CheckpointCreated(tenant_id="t", session_id=session, state=state, step=number)
servers, nobody, topic, folder, *rest = sys.argv[1:]
"""

KILLED = """
acks = rest[0]
def work(child):
    publisher = CheckpointPublisher(nobody if child % 2 else servers, topic=topic, spool=folder)
    returned = os.open(f"{acks}/{child}", os.O_RDWR | os.O_CREAT)
    for number in range(1_000_000):
        publisher.publish(created(number, f"{child}-{number % 3}"))
        os.pwrite(returned, (number + 1).to_bytes(4, "big"), 0)
chance, pause = random.Random(int(rest[1])), threading.Event()
for round in range(10):
    pids = []
    for child in range(round * 5, round * 5 + 5):
        if (pid := os.fork()) == 0:
            work(child)
        pids.append(pid)
    chance.shuffle(pids)
    for pid in pids:
        pause.wait(chance.uniform(0.0, 0.2))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
"""


def _run(script: str, *arguments: str) -> str:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PRELUDE + textwrap.dedent(script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _drain(servers: str, topic: str, folder: Path, *, expect: int = 0) -> dict[str, object]:
    command = Milepost({"MILEPOST_KAFKA": servers, "MILEPOST_TOPIC": topic})
    answer: dict[str, object] = json.loads(command.run("spool", "drain", str(folder), "--json", expect=expect))
    return answer


def _first(records: Sequence[MemoryRecord], key: bytes) -> list[int]:
    """A session's events, each where it came first: who reads drops repeated event ids."""
    return list(dict.fromkeys(steps(records, key)))


def test_kill_9_at_fifty_random_moments_loses_no_event_whose_publish_returned(
    kafka_servers: str, topic: str, tmp_path: Path
) -> None:
    acks, folder = tmp_path / "acks", tmp_path / "spool"
    acks.mkdir()
    _run(KILLED, kafka_servers, NOBODY, topic, str(folder), str(acks), "5")
    assert _drain(kafka_servers, topic, folder)["left"]["events"] == 0  # type: ignore[index]
    records = read_log(kafka_servers, topic)
    published = 0
    for path in acks.iterdir():
        returned = int.from_bytes(path.read_bytes(), "big")
        published += returned
        for session in range(3):
            found = _first(records, f"t/{path.name}-{session}".encode())
            assert found == list(range(session, session + 3 * len(found), 3))
            assert len(found) >= len(range(session, returned, 3))
    assert published > 500
    assert not list(folder.glob("*.spool"))


def test_an_outage_loses_nothing_with_a_spool_and_memory_stays(
    make: Make,
    proxy: KafkaProxy,
    kafka_servers: str,
    topic: str,
    tmp_path: Path,
) -> None:
    proxy.refuse()
    publisher = make(proxy.servers, topic=topic, spool=tmp_path, queue_bytes=200_000)
    receipts = [publisher.publish(created(number, f"s{number % 3}", size=1_000)) for number in range(6_000)]
    assert publisher.stats().under_way == 6_000
    proxy.accept()
    assert publisher.flush(60) == 0
    assert all(receipt.result(0) for receipt in receipts)
    records = read_log(kafka_servers, topic)
    for session in range(3):
        assert steps(records, f"t/s{session}".encode()) == list(range(session, 6_000, 3))
    publisher.close()
    assert list(tmp_path.iterdir()) == []


def test_events_published_in_the_outage_and_after_it_keep_their_order(
    make: Make,
    proxy: KafkaProxy,
    kafka_servers: str,
    topic: str,
    tmp_path: Path,
) -> None:
    publisher = make(proxy.servers, topic=topic, spool=tmp_path, kafka={"linger.ms": 0, "reconnect.backoff.ms": 10})
    for number in range(3_000):
        publisher.publish(created(number, size=500))
        if number % 500 == 250:
            proxy.refuse()
        elif number % 500 == 0:
            proxy.accept()
    proxy.accept()
    assert publisher.flush(60) == 0
    assert steps(read_log(kafka_servers, topic), b"t/s") == list(range(3_000))


def test_many_threads_and_many_segments_keep_each_threads_order(
    make: Make, kafka_servers: str, topic: str, tmp_path: Path
) -> None:
    publisher = make(kafka_servers, topic=topic, spool=Spool(tmp_path, limit_bytes=32 * 1024 * 1024))
    start = threading.Barrier(16)

    def work(thread: int) -> None:
        start.wait(15)
        for number in range(200):
            publisher.publish(created(thread * 1_000 + number, "one", size=3_000))

    threads = [threading.Thread(target=work, args=[thread]) for thread in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert publisher.flush(60) == 0
    records = read_log(kafka_servers, topic)
    assert [int(header(record, "ce_publisherseq") or 0) for record in records] == list(range(1, 3_201))
    found = steps(records, b"t/one")
    for number in range(16):
        assert [step for step in found if step // 1_000 == number] == list(range(number * 1_000, number * 1_000 + 200))
    publisher.close()
    assert list(tmp_path.iterdir()) == []


def test_a_living_neighbour_sends_a_dead_ones_rest(
    make: Make,
    kafka_servers: str,
    topic: str,
    tmp_path: Path,
    monkeypatch: object,
) -> None:
    rest_seconds, rest.PATIENCE_SECONDS = rest.PATIENCE_SECONDS, 0.0  # type: ignore[misc]
    try:
        neighbour = make(kafka_servers, topic=topic, spool=tmp_path)
        neighbour.publish(created(0, "neighbour")).result(15)
        script = """
            publisher = CheckpointPublisher(nobody, topic=topic, spool=folder)
            for number in range(200): publisher.publish(created(number))
            os.kill(os.getpid(), signal.SIGKILL)
        """
        command = [sys.executable, "-c", PRELUDE + textwrap.dedent(script), kafka_servers, NOBODY, topic, str(tmp_path)]
        assert subprocess.run(command, check=False, timeout=60).returncode == -signal.SIGKILL
        wait_until(lambda: neighbour.stats().recovered == 200, 30)
    finally:
        rest.PATIENCE_SECONDS = rest_seconds  # type: ignore[misc]
    assert steps(read_log(kafka_servers, topic), b"t/s") == list(range(200))


def test_after_a_fork_each_sends_its_own(kafka_servers: str, topic: str, tmp_path: Path) -> None:
    script = """
        publisher = CheckpointPublisher(servers, topic=topic, spool=folder)
        for number in range(200): publisher.publish(created(number, "parent"))
        pids = []
        for child in range(3):
            if (pid := os.fork()) == 0:
                code = 1
                try:
                    for number in range(100): publisher.publish(created(number, f"child{child}"))
                    publisher.close(20)
                    code = 0 if publisher.stats().delivered == 100 else 2
                finally:
                    os._exit(code)
            pids.append(pid)
        for number in range(200, 300): publisher.publish(created(number, "parent"))
        assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids] == [0, 0, 0]
        publisher.close(20)
        assert publisher.stats().delivered == 300, publisher.stats()
    """
    _run(script, kafka_servers, NOBODY, topic, str(tmp_path))
    records = read_log(kafka_servers, topic)
    assert steps(records, b"t/parent") == list(range(300))
    assert [steps(records, f"t/child{child}".encode()) for child in range(3)] == [list(range(100))] * 3
    assert list(tmp_path.iterdir()) == []


def test_a_child_that_outlives_its_parent_does_not_hold_the_parents_rest(
    kafka_servers: str, topic: str, tmp_path: Path
) -> None:
    script = """
        publisher = CheckpointPublisher(nobody, topic=topic, spool=folder)
        for number in range(10): publisher.publish(created(number))
        if os.fork() == 0:
            print(os.getpid(), flush=True)
            os.close(1)
            threading.Event().wait(60)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    command = [sys.executable, "-W", "ignore", "-c", PRELUDE + textwrap.dedent(script)]
    with subprocess.Popen(
        [*command, kafka_servers, NOBODY, topic, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.wait(30)
    try:
        assert _drain(kafka_servers, topic, tmp_path)["sent"] == 10
    finally:
        subprocess.run(["kill", "-9", str(child)], check=True)
    assert steps(read_log(kafka_servers, topic), b"t/s") == list(range(10))


def test_sigterm_in_the_middle_leaves_what_was_taken_for_the_next(
    kafka_servers: str, topic: str, tmp_path: Path
) -> None:
    script = """
        publisher = CheckpointPublisher(nobody, topic=topic, spool=folder)
        number = 0
        def stop(*_):
            publisher.close(0.2)  # perhaps in the middle of a publish of this very thread
            print(number, flush=True)
            raise SystemExit
        signal.signal(signal.SIGTERM, stop)
        threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGTERM]).start()
        while True:
            publisher.publish(created(number))
            number += 1
    """
    returned = int(_run(script, kafka_servers, NOBODY, topic, str(tmp_path)))
    _drain(kafka_servers, topic, tmp_path)
    found = steps(read_log(kafka_servers, topic), b"t/s")
    assert found == list(range(len(found)))
    assert returned <= len(found) <= returned + 1  # and perhaps the one that the signal came into


def test_a_topic_that_is_missing_fails_nothing_and_all_comes_once_it_is_there(
    make: Make,
    kafka_servers: str,
    topic: str,
    tmp_path: Path,
) -> None:
    name = f"{topic}.later"
    publisher = make(kafka_servers, topic=name, spool=tmp_path, kafka={"topic.metadata.propagation.max.ms": 100})
    for number in range(50):
        publisher.publish(created(number))
    wait_until(lambda: publisher.stats().producers_rebuilt > 0, 30)
    create_topic(kafka.admin(kafka_servers), kafka_servers, name, PARTITIONS, 1)
    assert publisher.flush(30) == 0
    assert _first(read_log(kafka_servers, name), b"t/s") == list(range(50))
    assert publisher.stats().failed == 0


def test_the_command_shows_and_drains(make: Make, kafka_servers: str, topic: str, tmp_path: Path) -> None:
    publisher = make(NOBODY, topic=topic, spool=tmp_path, source="/runtimes/gone")
    for number in range(20):
        publisher.publish(created(number))
    command = Milepost({"MILEPOST_KAFKA": kafka_servers, "MILEPOST_TOPIC": topic})
    alive = command.result("spool", "drain", str(tmp_path))
    assert alive.returncode == 3
    assert "20 belong to a running publisher, which sends them itself" in alive.stderr.decode()
    publisher.close(0)
    shown = json.loads(command.run("spool", "status", str(tmp_path), "--json"))
    assert (shown["path"], shown["events"], shown["set_aside"], shown["foreign"]) == (str(tmp_path), 20, [], [])
    (row,) = shown["publishers"]
    names = ("publisher_id", "topic", "source", "alive", "files", "events", "damaged")
    assert [row[name] for name in names] == [
        publisher.stats().publisher_id.hex,
        topic,
        "/runtimes/gone",
        False,
        1,
        20,
        0,
    ]
    assert re.search(r"events +20\n", command.run("spool", "status", str(tmp_path)).decode())
    away = command.result("spool", "drain", str(tmp_path), "--kafka", NOBODY, "--timeout", "0.5", "--json")
    assert (away.returncode, json.loads(away.stdout)["sent"]) == (3, 0)
    assert "20 were not confirmed by Kafka" in away.stderr.decode()
    other = command.result("spool", "drain", str(tmp_path), "--topic", "other")
    assert other.returncode == 3
    assert f"20 are for the topic {topic}: run it with --topic {topic}" in other.stderr.decode()
    assert _drain(kafka_servers, topic, tmp_path)["sent"] == 20
    assert _drain(kafka_servers, topic, tmp_path)["sent"] == 0
    assert survey(tmp_path).events == 0
    records = read_log(kafka_servers, topic)
    assert steps(records, b"t/s") == list(range(20))
    assert {header(record, "ce_source") for record in records} == {"/runtimes/gone"}
    assert command.result("spool", "status", str(tmp_path / "none")).returncode == 2
