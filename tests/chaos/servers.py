"""A Kafka and a Postgres of our own, that may be killed, stopped and brought back."""

from __future__ import annotations

import shutil
import signal
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final, Self
from unittest.mock import patch

import psutil
import psycopg
from confluent_kafka import Producer
from psycopg import conninfo, sql

from milepost.consumer import migrate
from milepost.consumer.database import connect
from milepost.embedded import EmbeddedError, Stack
from milepost.embedded import kafka as embedded_kafka
from milepost.embedded.settings import KAFKA_SETTINGS, ServerName
from tests.chaos.signals import unbroken

SERVERS: Final[tuple[ServerName, ServerName]] = ("kafka", "postgres")
_SETTINGS: Final = {
    **KAFKA_SETTINGS,
    # by default a broker refuses session timeouts below six seconds
    "group.min.session.timeout.ms": "500",
    # by default it looks for transactions that have run out every ten seconds
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}


class Servers:
    """Both servers, from `with` to its end, and a database with the schema to make others from."""

    def __init__(self, folder: Path, progress: Callable[[str], None] = lambda _: None) -> None:
        self.stack: Final = Stack(folder, progress=progress)
        self._template: Final = f"template_{uuid.uuid4().hex[:12]}"
        self.kafka = self.postgres = ""

    @classmethod
    @contextmanager
    def of_a_run(cls, folder: Path) -> Iterator[Self]:
        """Servers in a folder that is theirs, and gone with them."""
        try:
            with cls(folder / "servers") as servers:
                yield servers
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            self._begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _begin(self) -> None:
        with patch.object(embedded_kafka, "KAFKA_SETTINGS", _SETTINGS):
            self.stack.up()
        environment = self.stack.environment()
        self.kafka, self.postgres = environment["MILEPOST_KAFKA"], environment["MILEPOST_DATABASE"]
        self.producer = self._new_producer()
        self._create(self._template, "template0")
        with closing(connect(self._place(self._template))) as connection:
            migrate.apply(connection)

    def __exit__(self, *error: object) -> None:
        with unbroken():
            for server in SERVERS:
                with suppress(EmbeddedError, psutil.Error, OSError, ValueError):
                    self.signal(server, signal.SIGCONT)
            self.stack.destroy()

    def database(self, *, lasting: bool = True) -> str:
        """A conninfo of a new database with the schema; `lasting` when it has to be as it was after a crash."""
        name = f"view_{uuid.uuid4().hex[:12]}"
        self._create(name, self._template, lasting=lasting)
        return self._place(name)

    def drop(self, database: str) -> None:
        """Remove a database, whoever is connected."""
        name = str(conninfo.conninfo_to_dict(database)["dbname"])
        with psycopg.connect(self.postgres, autocommit=True) as connection:
            connection.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))

    def signal(self, server: ServerName, number: int) -> None:
        """Signal a server: all processes of Postgres to stop and to go on, else its first one, which ends the others."""
        if server == "kafka" or number not in (signal.SIGSTOP, signal.SIGCONT):
            self.stack.kill(server, number)
            return
        for process in self._postgres_processes():
            with suppress(psutil.Error):
                process.send_signal(number)

    def start(self, server: ServerName) -> None:
        """Bring a server back, on the port it had, and return when it answers."""
        with patch.object(embedded_kafka, "KAFKA_SETTINGS", _SETTINGS):
            self.stack.start(server)
        if server == "kafka":
            # a client that was told once that there is no broker asks nobody any more
            self.producer = self._new_producer()

    def stop(self, server: ServerName) -> None:
        """Stop a server as its operator does."""
        self.stack.stop(server)

    def _postgres_processes(self) -> list[psutil.Process]:
        (path,) = self.stack.directory.glob("postgres/*/postmaster.pid")
        first = psutil.Process(int(path.read_text().split()[0]))
        return [first, *first.children(recursive=True)]

    def _create(self, name: str, template: str, *, lasting: bool = True) -> None:
        with psycopg.connect(self.postgres, autocommit=True) as connection:
            connection.execute(
                sql.SQL("create database {} template {}").format(sql.Identifier(name), sql.Identifier(template))
            )
            if lasting:
                # a clone's sequences would go back in a crash: their template has logged the numbers they give out next
                connection.execute("checkpoint")

    def _new_producer(self) -> Producer:
        return Producer(
            {
                "bootstrap.servers": self.kafka,
                "enable.idempotence": True,
                "partitioner": "murmur2_random",
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )

    def _place(self, name: str) -> str:
        return conninfo.make_conninfo(self.postgres, dbname=name)
