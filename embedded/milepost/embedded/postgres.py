"""Postgres: its command line, its first sign of life, its database."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, ClassVar

import psutil
import psycopg
from psycopg import sql

from milepost.embedded import cluster, identity
from milepost.embedded.errors import EmbeddedError, ServerFailed
from milepost.embedded.postgres_programs import PostgresPrograms, find_postgres
from milepost.embedded.process import Launch, end, working_in
from milepost.embedded.server import NotReady, Server
from milepost.embedded.settings import DATABASE, DATABASE_USER, LOOPBACK, POSTGRES_SETTINGS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_ORPHANS_LIMIT = 10.0


class PostgresServer(Server):
    """One cluster, reached over TCP with a password: no socket file, no trust."""

    name = "postgres"
    title = "Postgres"
    ports_needed = 1
    # fast shutdown, immediate shutdown, none
    stopping: ClassVar[Sequence[tuple[int, float]]] = (
        (signal.SIGINT, 60.0),
        (signal.SIGQUIT, 10.0),
        (signal.SIGKILL, 10.0),
    )
    # after a crash it reads up to max_wal_size of its log again
    ready_limit = 300.0

    def __init__(self, directory: Path) -> None:
        """Touches nothing."""
        self._directory = directory
        self._password_file = directory / "postgres.password"
        self._programs: PostgresPrograms | None = None

    @property
    def data(self) -> Path:
        return cluster.existing_data(self._directory) or self._directory / "postgres"

    @property
    def signature(self) -> Sequence[str]:
        return (f"cluster_name={POSTGRES_SETTINGS['cluster_name']}", "-D", str(self.data))

    def find_programs(self) -> str:
        existing = cluster.existing_data(self._directory)
        self._programs = find_postgres(None if existing is None else int(existing.name))
        return self._programs.version

    def prepare(self, ports: Sequence[int]) -> Launch:
        if self._programs is None:
            raise EmbeddedError("find_programs comes before prepare")
        place = cluster.locate(self._directory, self._programs)
        programs = self._programs
        if identity.owner_of(place.identity) is not None:
            identity.make_passable(place.data.parent)
            copy = identity.readable_copy(programs.bin, place.data.parent, programs.version)
            programs = PostgresPrograms(copy, programs.version)
        if not place.data.exists():
            password = cluster.remembered_password(self._password_file, fresh=True)
            cluster.initialise(place, programs, password)
        self._clear_away()
        settings = {
            **POSTGRES_SETTINGS,
            "listen_addresses": LOOPBACK,
            "port": str(ports[0]),
            "unix_socket_directories": "",
        }
        options = [option for name, value in settings.items() for option in ("-c", f"{name}={value}")]
        command = [str(programs.bin / "postgres"), "-D", str(place.data), *options]
        return Launch(
            command=command, folder=place.data, environment=cluster.clean_environment(), identity=place.identity
        )

    def ask(self, port: int, limit: float) -> None:
        try:
            psycopg.connect(self.conninfo(port, "postgres"), connect_timeout=max(2, round(limit))).close()
        except psycopg.OperationalError as error:
            raise NotReady(str(error).strip()) from error

    def settle(self, port: int) -> None:
        try:
            with psycopg.connect(self.conninfo(port, "postgres"), autocommit=True) as connection:
                found = connection.execute("select from pg_database where datname = %s", [DATABASE]).fetchone()
                if found is None:
                    connection.execute(sql.SQL("create database {}").format(sql.Identifier(DATABASE)))
        except psycopg.Error as error:
            raise ServerFailed(f"Postgres answers, and its database {DATABASE} could not be made: {error}") from error

    def left_behind(self) -> list[psutil.Process]:
        # each of its processes works in the data folder, and a busy one outlives a killed server
        return working_in(self.data, "postgres")

    def conninfo(self, port: int, database: str = DATABASE) -> str:
        """How to connect from anything on this machine, password included. Raises UnusableFolder when that is gone."""
        password = cluster.remembered_password(self._password_file, fresh=False)
        return f"postgresql://{DATABASE_USER}:{password}@{LOOPBACK}:{port}/{database}"

    def _clear_away(self) -> None:
        """What a killed server leaves would stop the next: processes that hold its memory, a lock with a reused pid."""
        if orphans := self.left_behind():
            end(orphans, [(signal.SIGQUIT, _ORPHANS_LIMIT), (signal.SIGKILL, _ORPHANS_LIMIT)])
        lock = self.data / "postmaster.pid"
        try:
            holder = psutil.Process(int(lock.read_text("ascii").split("\n", 1)[0]))
            foreign = holder.name() != "postgres" or holder.cwd() != str(self.data)
        except psutil.NoSuchProcess:
            foreign = True  # its number may be given to somebody else before Postgres looks
        except (OSError, ValueError, psutil.Error):
            return  # no lock, or a holder that can't be told: Postgres itself knows what to do
        if foreign:
            lock.unlink()
