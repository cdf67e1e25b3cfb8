"""A worker in a thread of the test, so that a test may plant what it likes and see every line; and Postgres made to refuse."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import psycopg
import pytest
from psycopg import sql

from milepost.consumer.config import ConsumeConfig
from milepost.consumer.observe import Observer
from milepost.consumer.observe.board import Board
from milepost.consumer.observe.tallies import WorkerState
from milepost.consumer.supervisor import Task, prepare
from milepost.consumer.worker import Worker
from milepost.schemas import CheckpointCreated
from milepost.schemas.partitioning import partition_of
from tests.fixtures.commands import wait_until
from tests.fixtures.publishing import produce
from tests.fixtures.servers import PARTITIONS


@dataclass
class Running:
    """A worker between `with` and its end, or `Running.wait_for_end`."""

    config: ConsumeConfig
    until: Mapping[int, int] | None = None
    error: BaseException | None = None
    board: Board = field(default_factory=lambda: Board(1))

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self.task: Task = prepare(self.config, until_caught_up=False)
        self.board.lives(0, True)
        self._thread.start()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._stop.set()
        self._thread.join(30)
        assert not self._thread.is_alive()
        if error is None and self.error is not None:
            raise self.error

    def _run(self) -> None:
        try:
            task = self.task
            observer = Observer(lambda state: self.board.told(0, state))
            Worker(task.config, task.log, task.group, stop=self._stop.is_set, until=self.until, observer=observer).run()
        except BaseException as error:  # noqa: BLE001 - it is raised in the test
            self.error = error

    def wait_for_end(self) -> BaseException:
        """Wait until it ends by itself, and give the error it ends with."""
        self._thread.join(30)
        error, self.error = self.error, None
        assert error is not None
        return error

    @property
    def state(self) -> WorkerState | None:
        """What it told last."""
        return self.board.workers()[0].state

    def counted(self, metric: str, label: str = "") -> float:
        """A counter's value."""
        return self.board.totals()[1].counters[metric].get(label, 0.0)

    def wait_for_events(self, number: int) -> None:
        """Wait until so many events were applied since the start."""
        wait_until(lambda: self.counted("milepost_events_total", "applied") == number, f"{number} events", 30)

    def wait_until_reading(self) -> None:
        """Wait until it has its share of the log and reads it."""
        wait_until(
            lambda: (state := self.state) is not None and state.started and len(state.positions) == PARTITIONS,
            "a share",
        )


class Lines:
    """The lines that were logged."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog
        caplog.set_level(logging.INFO, logger="milepost")

    def of(self, event: str) -> list[Any]:
        """The records of one kind."""
        return [record for record in self._caplog.records if getattr(record, "event", None) == event]

    def wait_for(self, event: str, number: int) -> Any:
        """Wait for the so-manieth line of a kind, and give it."""
        wait_until(lambda: len(self.of(event)) >= number, f"line {number} of {event}", 30)
        return self.of(event)[number - 1]


class Refusal:
    """Postgres refuses events of one session, or of all, when it is told to."""

    def __init__(self, database: str) -> None:
        self._connection = psycopg.connect(database, autocommit=True)
        self._connection.execute(
            "create function public.refuse() returns trigger language plpgsql as 'begin return new; end'"
        )
        self._connection.execute(
            "create trigger refuse before insert on milepost.history for each row execute function public.refuse()"
        )

    def begin(self, state: str, session_id: str | None = None) -> None:
        """Raise this SQLSTATE from now on."""
        self._define(
            sql.SQL(
                "begin if {0} is null or new.session_id = {0} then raise exception using errcode = {1}; end if; "
                "return new; end"
            )
            .format(sql.Literal(session_id), sql.Literal(state))
            .as_string(self._connection)
        )

    def end(self) -> None:
        """Refuse nothing any more."""
        self._define("begin return new; end")

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _define(self, body: str) -> None:
        self._connection.execute(
            sql.SQL("create or replace function public.refuse() returns trigger language plpgsql as {}").format(
                sql.Literal(body)
            )
        )


def config(kafka_servers: str, topic: str, database: str) -> ConsumeConfig:
    """A worker's."""
    return ConsumeConfig(kafka=kafka_servers, topic=topic, database=database)


def sessions() -> dict[int, str]:
    """A session of each partition."""
    found: dict[int, str] = {}
    number = 0
    while len(found) < PARTITIONS:
        found.setdefault(partition_of(f"acme/s{number}".encode(), PARTITIONS), f"s{number}")
        number += 1
    return found


def publish(kafka_servers: str, topic: str, *session_ids: str) -> None:
    """One checkpoint of each of these sessions."""
    produce(
        kafka_servers, topic, [CheckpointCreated(tenant_id="acme", session_id=each, state=b"1") for each in session_ids]
    )


def offsets(database: str) -> dict[int, int]:
    """Where the view stands."""
    with psycopg.connect(database) as connection:
        return dict(connection.execute("select partition, next_offset from milepost.partitions").fetchall())
