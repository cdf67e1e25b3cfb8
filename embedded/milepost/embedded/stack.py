"""A real Kafka and a real Postgres in one folder."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from milepost.embedded.cluster import folders_of
from milepost.embedded.errors import EmbeddedError, UnusableFolder
from milepost.embedded.kafka import KafkaServer
from milepost.embedded.keeper import Keeper
from milepost.embedded.postgres import PostgresServer
from milepost.embedded.settings import TOPIC, ServerName
from milepost.embedded.status import StackStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_LOCK_LIMIT = 900.0


class Stack:
    """The embedded stack of one folder. Its servers are daemons: they run until `down`, whatever becomes of us.

    Every method may be called again and from several processes at once: those that change something take turns.
    All raise EmbeddedError, whose message says what to do.
    """

    def __init__(
        self, directory: str | os.PathLike[str] = ".milepost", *, progress: Callable[[str], None] | None = None
    ) -> None:
        """Touches nothing. `progress` is told, a line at a time, what takes long."""
        self.directory = Path(directory).resolve()
        self._progress = progress or (lambda _: None)
        self._postgres = PostgresServer(self.directory)
        kafka = KafkaServer(self.directory, self._progress)
        self._keepers: dict[ServerName, Keeper] = {
            "kafka": Keeper(kafka, self.directory, self._progress),
            "postgres": Keeper(self._postgres, self.directory, self._progress),
        }

    def up(self) -> StackStatus:
        """Starts what does not run and returns when both servers answer.

        Blocks: some seconds, the first time also for 45 MB of downloads, and for whoever else is at work in the folder.
        When one server fails, what this call started is stopped again.
        """
        self._start(("kafka", "postgres"))
        return self.status()

    def down(self) -> None:
        """Stops both servers and returns when no process is left. Data, ports and logs stay."""
        self._stop(("postgres", "kafka"))

    def destroy(self) -> None:
        """Stops both servers and removes their data, logs and settings from the folder, and nothing else in it."""
        if not self.directory.exists():
            return
        with self._locked():
            self._stop_locked(("postgres", "kafka"))
            for path in (*folders_of(self.directory), *(self.directory / name for name in ("kafka", "logs"))):
                if path.exists():
                    shutil.rmtree(path)
            for name in ("kafka.json", "postgres.json", "postgres.password", ".gitignore"):
                (self.directory / name).unlink(missing_ok=True)

    def status(self) -> StackStatus:
        """Both servers as they are now. Changes nothing, waits for nobody but two seconds for a silent server."""
        kafka, postgres = self._keepers["kafka"].status(), self._keepers["postgres"].status()
        conninfo = None
        if postgres.address is not None:
            conninfo = self._postgres.conninfo(int(postgres.address.rpartition(":")[2]))
        return StackStatus(directory=self.directory, kafka=kafka, postgres=postgres, conninfo=conninfo)

    def environment(self) -> dict[str, str]:
        """The settings that milepost's commands read, even while the servers are down.

        Raises UnusableFolder before the first `up`.
        """
        status = self.status()
        return {"MILEPOST_KAFKA": status.kafka_address, "MILEPOST_TOPIC": TOPIC, "MILEPOST_DATABASE": status.database}

    def start(self, server: ServerName) -> None:
        """Starts one server, on the ports it had, and returns when it answers; nothing when it runs."""
        self._start((server,))

    def stop(self, server: ServerName) -> None:
        """Stops one server; nothing when it does not run."""
        self._stop((server,))

    def kill(self, server: ServerName, signal: int) -> None:
        """Sends a signal to a server (Postgres' first process). After SIGKILL, returns when the process is gone."""
        self._keepers[server].kill(signal)

    def _start(self, names: Iterable[ServerName]) -> None:
        self._make_folder()
        with self._locked():
            waiting = [keeper for name in names if not (keeper := self._keepers[name]).status().ready]
            launching = [keeper for keeper in waiting if keeper.needs_launch()]
            for keeper in launching:
                keeper.find_programs()  # what is missing is told before anything is started
            started: list[Keeper] = []
            try:
                for keeper in launching:
                    started.append(keeper)
                    keeper.launch()
                for keeper in reversed(waiting):  # the quick one first: if it fails, that is told soon
                    keeper.wait_ready()
            except BaseException:
                for keeper in started:
                    keeper.stop()
                raise

    def _stop(self, names: Iterable[ServerName]) -> None:
        if self.directory.exists():
            with self._locked():
                self._stop_locked(names)

    def _stop_locked(self, names: Iterable[ServerName]) -> None:
        for name in names:
            self._keepers[name].stop()

    def _make_folder(self) -> None:
        try:
            (self.directory / "logs").mkdir(parents=True, exist_ok=True)
            ignore = self.directory / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n", "ascii")
        except OSError as error:
            message = (
                f"can't write to {self.directory}: {error.strerror}. Choose another folder, or the user it belongs to."
            )
            raise UnusableFolder(message) from error

    @contextmanager
    def _locked(self) -> Iterator[None]:
        lock = FileLock(self.directory / "lock")
        try:
            try:
                lock.acquire(blocking=False)
            except Timeout:
                self._progress(f"waiting for another command in {self.directory}")
                lock.acquire(timeout=_LOCK_LIMIT)
        except Timeout as error:
            message = f"another command was at work here for {_LOCK_LIMIT:.0f} s: see who holds {lock.lock_file}"
            raise EmbeddedError(message) from error
        except OSError as error:
            message = f"can't lock {lock.lock_file}: {error.strerror}. Use the stack as the user who made it."
            raise UnusableFolder(message) from error
        try:
            yield
        except OSError as error:
            message = f"the system refused what the stack in {self.directory} needs: {error}"
            raise UnusableFolder(message) from error
        finally:
            lock.release()
