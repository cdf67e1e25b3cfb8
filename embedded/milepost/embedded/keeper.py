"""One server's life: found, started, waited for, stopped. The caller holds the folder's lock, except for `status`."""

from __future__ import annotations

import signal
from collections import deque
from typing import TYPE_CHECKING

from tenacity import RetryError, Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from milepost.embedded.errors import EmbeddedError, ServerFailed
from milepost.embedded.ports import become_free, free_ports, is_free
from milepost.embedded.process import end, outliving, recorded, send, spawn, unrecorded
from milepost.embedded.server import NotReady
from milepost.embedded.settings import LOOPBACK
from milepost.embedded.state import Record, read_record, write_record
from milepost.embedded.status import ServerStatus

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import psutil

    from milepost.embedded.server import Server

_PORT_TRIES = 3
_ASKING_PAUSE = 0.05
_ASKING_LIMIT = 2.0
_LINES_SHOWN = 15
_DEATH_LIMIT = 10.0
_PORT_LIMIT = 5.0


class Keeper:
    """Keeps one server of the stack in `directory`."""

    def __init__(self, server: Server, directory: Path, progress: Callable[[str], None]) -> None:
        """Touches nothing."""
        self._server = server
        self._progress = progress
        self._version = ""
        self._record_file = directory / f"{server.name}.json"
        self.log = directory / "logs" / f"{server.name}.log"

    def find(self) -> psutil.Process | None:
        """The server's process, if it runs: by its record, or by its command line when the record does not tell."""
        record = read_record(self._record_file)
        signature = self._server.signature
        return recorded(record.pid, record.created, signature) or unrecorded(signature)

    def needs_launch(self) -> bool:
        """Whether it does not run. One whose ports nobody knows any more is ended, and so does not run either."""
        if self.find() is not None and not read_record(self._record_file).ports:
            self.stop()
        return self.find() is None

    def find_programs(self) -> None:
        """Raises EmbeddedError when something that it needs is missing. Changes nothing but the cache."""
        self._version = self._server.find_programs()

    def launch(self) -> None:
        """Starts it on its old ports if they are free, or soon become so, else on new ones; does not wait for it."""
        if not self._version:
            self.find_programs()
        ports = read_record(self._record_file).ports
        if len(ports) != self._server.ports_needed or not become_free(ports, _PORT_LIMIT):
            ports = free_ports(self._server.ports_needed)
        self._progress(f"{self._server.title}: starting on port {ports[0]}")
        launch = self._server.prepare(ports)
        # before there is a process: should we be killed in between, the ports are known and the process can be found
        write_record(self._record_file, Record(ports=ports, version=self._version))
        process = spawn(launch, self.log)
        record = Record(ports=ports, pid=process.pid, created=process.create_time(), version=self._version)
        write_record(self._record_file, record)

    def wait_ready(self) -> None:
        """Returns when it answers; starts it anew if another program took its port meanwhile. Raises ServerFailed."""
        for _ in range(_PORT_TRIES):
            ports = read_record(self._record_file).ports
            if self._wait(ports[0]):
                self._server.settle(ports[0])
                self._progress(f"{self._server.title}: ready")
                return
            if all(map(is_free, ports)):
                raise ServerFailed(f"{self._server.title} ended while starting. {self._last_lines()}")
            self.launch()
        raise ServerFailed(f"{self._server.title} found its port taken {_PORT_TRIES} times. {self._last_lines()}")

    def stop(self) -> bool:
        """Ends it and what it left; its data stays. Returns whether there was anything to end. Raises EmbeddedError."""
        process = self.find()
        left = [] if process is None else [process]
        if left:
            self._progress(f"{self._server.title}: stopping")
            end(left, self._server.stopping)
        if orphans := self._server.left_behind():
            left += orphans
            end(orphans, [(signal.SIGQUIT, _DEATH_LIMIT), (signal.SIGKILL, _DEATH_LIMIT)])
        record = read_record(self._record_file)
        if record.pid is not None:
            write_record(self._record_file, Record(ports=record.ports, version=record.version))
        return bool(left)

    def kill(self, number: int) -> None:
        """Sends a signal to the server's first process; after SIGKILL waits until it is gone. Raises EmbeddedError."""
        process = self.find()
        if process is None:
            raise EmbeddedError(f"{self._server.title} does not run, so it can't be sent signal {number}")
        send(process, number)
        if number == signal.SIGKILL:
            outliving([process], _DEATH_LIMIT)

    def status(self) -> ServerStatus:
        """As it is now. Changes nothing; blocks two seconds when the server runs and does not answer."""
        record, process = read_record(self._record_file), self.find()
        ready = False
        if process is not None and record.ports:
            try:
                self._server.ask(record.ports[0], _ASKING_LIMIT)
                ready = True
            except (NotReady, EmbeddedError):
                pass
        return ServerStatus(
            running=process is not None,
            ready=ready,
            pid=None if process is None else process.pid,
            address=f"{LOOPBACK}:{record.ports[0]}" if record.ports else None,
            version=record.version,
            data_dir=self._server.data,
            log_file=self.log,
        )

    def _wait(self, port: int) -> bool:
        """Whether it answered; False when it ended instead."""
        asking = Retrying(
            stop=stop_after_delay(self._server.ready_limit),
            wait=wait_fixed(_ASKING_PAUSE),
            retry=retry_if_exception_type(NotReady),
        )
        try:
            return asking(self._ask_once, port)
        except RetryError as error:
            answer = error.last_attempt.exception()
            message = (
                f"{self._server.title} runs and did not answer within {self._server.ready_limit:.0f} s ({answer}). "
                f"`milepost embedded down` ends it. {self._last_lines()}"
            )
            raise ServerFailed(message) from error

    def _ask_once(self, port: int) -> bool:
        process = self.find()
        if process is None:
            return False
        self._server.ask(port, _ASKING_LIMIT)
        return True

    def _last_lines(self) -> str:
        try:
            with self.log.open(encoding="utf-8", errors="replace") as stream:
                lines = deque(stream, maxlen=_LINES_SHOWN)
        except OSError as error:
            return f"Its log can't be read: {error}"
        return f"The last lines of {self.log}:\n{''.join(lines).rstrip()}"
