"""A connection does other work while it waits, and gives what it would give without."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

from milepost.consumer.database import connect
from milepost.consumer.overlap import OverlappingConnection


class Work:
    """Counts the pieces that were done, of as many as there are."""

    def __init__(self, pieces: int) -> None:
        self.left = pieces
        self.done = 0

    def __call__(self) -> bool:
        if not self.left:
            return False
        self.left -= 1
        self.done += 1
        time.sleep(0.001)
        return True


@pytest.fixture
def connection(database: str) -> Iterator[OverlappingConnection]:
    with closing(connect(database)) as made:
        yield made


def test_pieces_are_done_until_the_server_answers(connection: OverlappingConnection) -> None:
    work = connection.meanwhile = Work(1_000_000)
    assert connection.execute("select 7 from pg_sleep(0.3)").fetchall() == [(7,)]
    assert 50 < work.done < 1_000


def test_when_nothing_is_left_it_sleeps_until_the_server_answers(connection: OverlappingConnection) -> None:
    work = connection.meanwhile = Work(3)
    busy = time.thread_time()
    assert connection.execute("select 7 from pg_sleep(0.3)").fetchall() == [(7,)]
    assert work.done == 3
    assert time.thread_time() - busy < 0.15


@pytest.mark.parametrize("pieces", [0, 5, 1_000_000])
def test_copy_brings_every_byte(connection: OverlappingConnection, pieces: int) -> None:
    connection.execute("create temporary table copied (number int8, bytes bytea)")
    connection.meanwhile = Work(pieces)
    rows = [(number, bytes([number % 256]) * 60_000) for number in range(300)]
    with connection.cursor() as cursor, cursor.copy("copy copied from stdin (format binary)") as copy:
        copy.set_types(["int8", "bytea"])
        for row in rows:
            copy.write_row(row)
    assert connection.execute("select number, bytes from copied order by number").fetchall() == rows


def test_an_error_is_raised_as_without_and_the_connection_goes_on(connection: OverlappingConnection) -> None:
    connection.meanwhile = Work(1_000_000)
    with pytest.raises(psycopg.errors.DivisionByZero), connection.transaction():
        connection.execute("select 1 / 0 from pg_sleep(0.05)")
    assert connection.execute("select 7").fetchone() == (7,)


def test_a_server_that_goes_away_is_noticed_by_whoever_has_work_left(
    connection: OverlappingConnection, database: str
) -> None:
    work = connection.meanwhile = Work(1_000_000)
    process = connection.info.backend_pid
    with closing(connect(database)) as other:

        def piece() -> bool:
            if work.done == 20:
                other.execute("select pg_terminate_backend(%s)", [process])
            return work()

        connection.meanwhile = piece
        with pytest.raises(psycopg.OperationalError):
            connection.execute("select pg_sleep(20)")
    assert work.done < 5_000
    assert connection.closed


def test_an_interrupt_in_the_other_work_ends_the_connection(connection: OverlappingConnection) -> None:
    def interrupted() -> bool:
        raise KeyboardInterrupt

    connection.meanwhile = interrupted
    with pytest.raises(KeyboardInterrupt):
        connection.execute("select pg_sleep(20)")
    assert connection.closed
