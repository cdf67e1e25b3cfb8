"""Threads, collected publishers, forks, signals and the interpreter's exit: what happens without anybody's care."""

from __future__ import annotations

import gc
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
import weakref

import pytest

from milepost.producer import CheckpointPublisher, Receipt
from milepost.producer.delivery import lifecycle
from milepost.producer.delivery.outbox import Outbox
from milepost.schemas import DeliveryFailed, PublisherClosed
from milepost.schemas.codec import check
from tests.producer.conftest import Make
from tests.producer.helpers import NOBODY, created, header, read_log, steps, wait_until

PRELUDE = """
import os, signal, sys, threading
from milepost.producer import CheckpointPublisher
from milepost.schemas import CheckpointCreated
def created(number, session="s"):
    state = b'{"n": %d}' % number
    return CheckpointCreated(tenant_id="t", session_id=session, state=state, step=number)
servers, topic = sys.argv[1:]
publisher = CheckpointPublisher(servers, topic=topic)
"""


def _start(script: str, servers: str, topic: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PRELUDE + textwrap.dedent(script), servers, topic],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _run(script: str, servers: str, topic: str) -> tuple[str, str]:
    with _start(script, servers, topic) as process:
        out, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    return out, errors


def test_thirty_two_threads_publish_at_once_each_in_its_order(make: Make, kafka_servers: str, topic: str) -> None:
    publisher = make(kafka_servers, topic=topic)
    start = threading.Barrier(32)

    def work(thread: int) -> None:
        start.wait(15)
        for number in range(100):
            publisher.publish(created(thread * 1_000 + number, "one"))

    threads = [threading.Thread(target=work, args=[thread]) for thread in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert publisher.flush(30) == 0
    records = read_log(kafka_servers, topic)
    assert [int(header(record, "ce_publisherseq") or 0) for record in records] == list(range(1, 3_201))
    found = steps(records, b"t/one")
    for number in range(32):
        mine = [step for step in found if step // 1_000 == number]
        assert mine == list(range(number * 1_000, number * 1_000 + 100))


def test_a_collected_publisher_delivers_what_it_took_and_ends(kafka_servers: str, topic: str) -> None:
    before = set(lifecycle.running)
    publisher = CheckpointPublisher(kafka_servers, topic=topic)
    receipts = [publisher.publish(created(number)) for number in range(100)]
    gone = weakref.ref(publisher)
    del publisher
    gc.collect()
    assert gone() is None
    assert receipts[-1].result(15).offset == 99
    wait_until(lambda: set(lifecycle.running) <= before)


def test_closing_while_others_publish_leaves_no_receipt_open(make: Make, kafka_servers: str, topic: str) -> None:
    publisher = make(kafka_servers, topic=topic)
    receipts = []

    def work() -> None:
        try:
            while True:
                receipts.append(publisher.publish(created()))
        except PublisherClosed:
            pass

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(receipts) > 500)
    publisher.close(10)
    for thread in threads:
        thread.join(15)
    assert all(receipt.done() for receipt in receipts)
    stats = publisher.stats()
    assert (stats.published, stats.under_way) == (len(receipts), 0)
    assert stats.published == stats.delivered + stats.failed


def test_a_script_that_ends_without_close_has_delivered(kafka_servers: str, topic: str) -> None:
    _run("for number in range(500): publisher.publish(created(number))", kafka_servers, topic)
    assert steps(read_log(kafka_servers, topic), b"t/s") == list(range(500))


def test_a_script_that_dies_of_an_exception_has_delivered(kafka_servers: str, topic: str) -> None:
    script = """
        for number in range(100): publisher.publish(created(number))
        raise SystemExit(3)
    """
    with _start(script, kafka_servers, topic) as process:
        assert process.wait(30) == 3
    assert steps(read_log(kafka_servers, topic), b"t/s") == list(range(100))


def test_an_exit_without_kafka_is_bounded_and_says_what_stayed(topic: str) -> None:
    began = time.monotonic()
    _, errors = _run("for number in range(7): publisher.publish(created(number))", NOBODY, topic)
    assert time.monotonic() - began < 9.0  # five, and the interpreter's own
    assert sum(map(int, re.findall(r"(\d+) not delivered \(\d+ closed\)", errors))) == 7


def test_sigterm_in_the_middle_loses_nothing_that_close_can_send(kafka_servers: str, topic: str) -> None:
    script = """
        number = 0
        def stop(*_):
            publisher.close(20)  # perhaps in the middle of a publish of this very thread
            print(publisher.stats().delivered, publisher.stats().failed, flush=True)
            raise SystemExit
        signal.signal(signal.SIGTERM, stop)
        print("ready", flush=True)
        while True:
            publisher.publish(created(number))
            number += 1
            if number % 500 == 0:
                publisher.flush(10)  # no more than close can send, on a slow machine too
    """
    with _start(script, kafka_servers, topic) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        wait_until(lambda: read_log(kafka_servers, topic))
        process.send_signal(signal.SIGTERM)
        out, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    delivered, failed = map(int, out.split())
    assert failed <= 1  # the one that the signal came into
    assert steps(read_log(kafka_servers, topic), b"t/s") == list(range(delivered))


def test_close_inside_a_publish_of_the_same_thread_does_not_wait_for_itself(
    make: Make, kafka_servers: str, topic: str
) -> None:
    publisher = make(kafka_servers, topic=topic)
    receipts = [publisher.publish(created(number)) for number in range(100)]
    with publisher._outbox._publishing:  # where a signal's handler may come in
        publisher.close(20)
    assert receipts[-1].result(0).offset == 99
    assert publisher.stats().delivered == 100


def test_an_event_that_comes_after_the_close_it_raced_with_is_reported() -> None:
    told: list[DeliveryFailed] = []
    outbox = Outbox(1_000_000, told.append)
    outbox.fail_rest()  # closed by a handler that came between the check and the append
    event = created()
    receipt = Receipt(event.event_id, event.checkpoint_id)
    outbox.put(check(event), receipt)
    with pytest.raises(DeliveryFailed, match="closed"):
        receipt.result(0)
    wait_until(lambda: len(told) == 1)


def test_a_child_publishes_and_the_parents_events_come_once(kafka_servers: str, topic: str) -> None:
    script = """
        receipts = [publisher.publish(created(number, "parent")) for number in range(300)]
        children = []
        for child in range(3):
            if (pid := os.fork()) == 0:
                code = 1
                try:
                    assert receipts[-1].done(), "the parent's receipts don't hang in the child"
                    for number in range(100): publisher.publish(created(number, f"child{child}"))
                    assert publisher.flush(20) == 0
                    assert publisher.stats().published == 100
                    publisher.close()
                    code = 0
                finally:
                    os._exit(code)
            children.append(pid)
            receipts += [publisher.publish(created(number, "parent")) for number in range(300 + child, 301 + child)]
        assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children] == [0, 0, 0]
        publisher.close(20)
        assert publisher.stats().delivered == 303, publisher.stats()
    """
    _run(script, kafka_servers, topic)
    records = read_log(kafka_servers, topic)
    assert steps(records, b"t/parent") == list(range(303))
    for child in range(3):
        assert steps(records, f"t/child{child}".encode()) == list(range(100))
    assert len({header(record, "ce_publisherid") for record in records}) == 4
    for name in {header(record, "ce_publisherid") for record in records}:
        numbers = sorted(int(header(r, "ce_publisherseq") or 0) for r in records if header(r, "ce_publisherid") == name)
        assert numbers == list(range(1, len(numbers) + 1))


def test_forked_workers_that_exit_in_the_usual_way_deliver(kafka_servers: str, topic: str) -> None:
    script = """
        import multiprocessing
        publisher.publish(created(0, "parent")).result(20)
        def work(number):
            for each in range(50): publisher.publish(created(each, f"worker{number}"))
        context = multiprocessing.get_context("fork")
        workers = [context.Process(target=work, args=[number]) for number in range(3)]
        for worker in workers: worker.start()
        for worker in workers: worker.join(30)
        assert [worker.exitcode for worker in workers] == [0, 0, 0]
        pid = os.fork()
        if pid == 0:
            publisher.publish(created(0, "gunicorn"))
            sys.exit(0)  # as a gunicorn worker ends: the whole interpreter is taken down
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    """
    _run(script, kafka_servers, topic)
    records = read_log(kafka_servers, topic)
    assert steps(records, b"t/gunicorn") == [0]
    assert [steps(records, f"t/worker{number}".encode()) for number in range(3)] == [list(range(50))] * 3


def test_a_publisher_closed_before_the_fork_is_closed_in_the_child(make: Make) -> None:
    publisher = make(NOBODY)
    publisher.close()
    publisher._begin_again()  # what the fork's handler calls
    with pytest.raises(PublisherClosed):
        publisher.publish(created())


@pytest.mark.parametrize("module", ["psycopg", "psycopg_pool", "milepost.consumer", "opentelemetry"])
def test_importing_needs_none_of(module: str) -> None:
    script = f"import sys, milepost.producer, milepost.producer.testing; sys.exit({module!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], env={**os.environ}, check=False).returncode == 0
