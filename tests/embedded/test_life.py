"""Up, down and what comes between: crashes, two commands at once, lost records, taken ports."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import psutil
import pytest

from milepost.embedded import EmbeddedError, ServerFailed, Stack, UnusableFolder
from milepost.embedded.state import Record, write_record

from .helpers import does, processes_of, python, read_both, read_postgres, wait_until, write_both, write_postgres

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_UP = "import sys; from milepost.embedded import Stack; print(Stack(sys.argv[1]).up())"


@pytest.fixture
def stranger() -> Iterator[psutil.Process]:
    """A process that is none of the stack's."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield psutil.Process(process.pid)
        process.kill()


def test_data_and_ports_are_kept_from_down_to_up(stack: Stack) -> None:
    before = stack.up()
    write_both(before, "kept")
    stack.down()
    assert processes_of(stack.directory) == []
    assert not stack.status().kafka.running
    assert not stack.status().postgres.running
    stack.down()

    after = stack.up()
    assert read_both(after) == (["kept"], ["kept"])
    assert (after.kafka_address, after.database) == (before.kafka_address, before.database)


def test_up_recovers_from_kill_9_of_either_server(stack: Stack) -> None:
    first = stack.up()
    write_both(first, "before")
    stack.kill("kafka", signal.SIGKILL)
    assert not stack.status().kafka.running

    second = stack.up()
    assert second.postgres.pid == first.postgres.pid
    write_both(second, "between")
    stack.kill("postgres", signal.SIGKILL)
    assert not stack.status().postgres.running

    third = stack.up()
    assert third.kafka.pid == second.kafka.pid
    assert read_both(third) == (["before", "between"], ["before", "between"])


def test_two_ups_at_once_make_one_stack(stack: Stack) -> None:
    commands = [python(_UP, str(stack.directory)) for _ in range(2)]
    answers = [command.communicate(timeout=90)[0] for command in commands]
    assert [command.returncode for command in commands] == [0, 0], answers
    assert answers[0] == answers[1]
    # and the servers have outlived both commands
    assert stack.status().all_ready
    assert str(stack.status()) == answers[0].strip()


def test_an_up_that_was_killed_leaves_nothing_half_made(stack: Stack) -> None:
    command = python(_UP, str(stack.directory))
    wait_until(lambda: list(stack.directory.glob("kafka/format-*")), 60)
    command.kill()
    command.communicate()
    wait_until(lambda: processes_of(stack.directory) == [], 20)
    assert not stack.status().kafka.running
    stack.start("kafka")
    assert stack.status().kafka.ready
    assert list(stack.directory.glob("kafka/format-*")) == []


def test_a_busy_backend_of_a_killed_postgres_does_not_stop_the_next(stack: Stack) -> None:
    stack.start("postgres")
    database = stack.status().database
    busy = python("import sys, psycopg; psycopg.connect(sys.argv[1]).execute(sys.argv[2])", database, _BUSY)
    wait_until(lambda: any(does(process, "SELECT") for process in processes_of(stack.status().postgres.data_dir)), 20)
    stack.kill("postgres", signal.SIGKILL)
    stack.start("postgres")
    assert stack.status().postgres.ready
    busy.communicate(timeout=20)
    stack.kill("postgres", signal.SIGKILL)
    stack.down()
    assert processes_of(stack.directory) == []


_BUSY = "select count(*) from generate_series(1, 100000) a, generate_series(1, 100000) b"


def test_a_lock_file_with_a_strangers_pid_does_not_stop_postgres(stack: Stack, stranger: psutil.Process) -> None:
    stack.start("postgres")
    status = stack.status()
    write_postgres(status.database, "kept")
    stack.kill("postgres", signal.SIGKILL)
    lock = status.postgres.data_dir / "postmaster.pid"
    lock.write_text("\n".join([str(stranger.pid), *lock.read_text().split("\n")[1:]]))
    stack.start("postgres")
    assert read_postgres(stack.status().database) == ["kept"]
    assert stranger.is_running()


def test_a_record_that_names_a_stranger_is_not_believed(stack: Stack, stranger: psutil.Process) -> None:
    stack.directory.mkdir()
    record = Record(ports=[1, 2], pid=stranger.pid, created=stranger.create_time(), version="4.2.2")
    for server in ("kafka", "postgres"):
        write_record(stack.directory / f"{server}.json", record)
    (stack.directory / "postgres.password").write_text("secret")
    assert not stack.status().kafka.running
    with pytest.raises(EmbeddedError, match="does not run"):
        stack.kill("kafka", signal.SIGKILL)
    stack.down()
    assert stranger.is_running()
    assert stranger.status() != psutil.STATUS_ZOMBIE


def test_a_server_whose_record_was_lost_is_found(stack: Stack) -> None:
    stack.start("postgres")
    pid = stack.status().postgres.pid
    (stack.directory / "postgres.json").unlink()
    assert stack.status().postgres.pid == pid
    stack.start("postgres")
    assert stack.status().postgres.ready
    (stack.directory / "postgres.json").unlink()
    stack.down()
    assert processes_of(stack.directory) == []


def test_a_taken_port_is_left_to_who_has_it(stack: Stack) -> None:
    stack.start("postgres")
    before = stack.status()
    write_postgres(before.database, "kept")
    stack.stop("postgres")
    assert before.postgres.address is not None
    port = int(before.postgres.address.split(":")[1])
    with socket.create_server(("127.0.0.1", port)):
        stack.start("postgres")
        after = stack.status()
        assert after.postgres.address != before.postgres.address
        assert read_postgres(after.database) == ["kept"]


def test_a_port_that_is_held_for_a_moment_more_is_waited_for(stack: Stack) -> None:
    stack.start("postgres")
    before = stack.status()
    stack.kill("postgres", signal.SIGKILL)
    stack.stop("postgres")
    assert before.postgres.address is not None
    # as a killed server holds it, whose first thread is gone and whose others are not
    holding = socket.create_server(("127.0.0.1", int(before.postgres.address.split(":")[1])))
    letting_go = threading.Timer(1.0, holding.close)
    letting_go.start()
    stack.start("postgres")
    letting_go.join()
    assert stack.status().postgres.address == before.postgres.address


def test_a_server_that_fails_is_told_with_its_log_and_nothing_stays(stack: Stack) -> None:
    stack.start("postgres")
    data = stack.status().postgres.data_dir
    stack.stop("postgres")
    (data / "postgresql.conf").write_text("no_such_setting = 1\n")
    with pytest.raises(ServerFailed, match="no_such_setting"):
        stack.up()
    assert processes_of(stack.directory) == []


def test_a_silent_server_is_running_but_not_ready(stack: Stack) -> None:
    stack.start("postgres")
    stack.kill("postgres", signal.SIGSTOP)
    status = stack.status()
    assert status.postgres.running
    assert not status.postgres.ready
    stack.kill("postgres", signal.SIGCONT)
    stack.start("postgres")
    assert stack.status().postgres.ready


def test_before_the_first_up_nothing_is_there(stack: Stack) -> None:
    stack.down()
    stack.destroy()
    status = stack.status()
    assert not status.all_ready
    with pytest.raises(UnusableFolder, match="milepost embedded up"):
        stack.environment()
    assert not stack.directory.exists()


def test_destroy_removes_only_what_is_the_stacks(stack: Stack) -> None:
    stack.start("postgres")
    (stack.directory / "mine.txt").write_text("mine")
    stack.destroy()
    assert processes_of(stack.directory) == []
    assert sorted(path.name for path in stack.directory.iterdir()) == ["lock", "mine.txt"]


def test_a_folder_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UnusableFolder, match="Choose another folder"):
        Stack(tmp_path / "file").up()


def test_a_record_that_is_not_one_is_told(stack: Stack) -> None:
    stack.directory.mkdir()
    (stack.directory / "kafka.json").write_text("{}")
    with pytest.raises(UnusableFolder, match=r"kafka\.json"):
        stack.status()
    (stack.directory / "kafka.json").unlink()
