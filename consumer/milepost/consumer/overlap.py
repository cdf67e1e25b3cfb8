"""A connection that has something to do while it waits: most of a batch's time Postgres is busy and our process is not.

Wherever psycopg would sleep until the server answers, or takes in more of a COPY, pieces of other work are done instead.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Generator
from typing import Any, Final, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.rows import TupleRow
from psycopg.waiting import Ready, Wait

Piece = Callable[[], bool]
"""Does a piece of other work; false when there is nothing to do. It is short, raises nothing and leaves the connection alone."""

Silence = Callable[[float], None]
"""Told about ten times a second that the server has said nothing for so many seconds. What it raises ends the connection."""

_Result = TypeVar("_Result")
_INTERVAL_SECONDS: Final = 0.1
"""psycopg's own: how often it looks whether somebody pressed Ctrl-C."""


def nothing() -> bool:
    """Where there is no other work."""
    return False


def patient(_seconds: float) -> None:
    """Where nobody minds how long the server takes."""


class OverlappingConnection(psycopg.Connection[TupleRow]):
    """Does pieces of `meanwhile` until the server is ready, and tells `silence` when it takes long."""

    meanwhile: Piece = staticmethod(nothing)
    silence: Silence = staticmethod(patient)

    def wait(self, gen: PQGen[_Result], interval: float = _INTERVAL_SECONDS, timeout: float | None = None) -> _Result:
        """Run one of psycopg's generators, which yield what they wait for."""
        # psycopg knows a limit since 3.3.6
        limit = {} if timeout is None else {"timeout": timeout}
        is_plain = self.meanwhile is nothing and self.silence is patient
        return super().wait(gen if is_plain else self._filled(gen), interval, **limit)

    def _filled(self, gen: PQGen[_Result]) -> Generator[Any, Any, _Result]:
        """The same generator, but what it waits for is mostly there by the time it is yielded."""
        try:
            wants = next(gen)
            began = 0.0
            while True:
                ready = self._work_until(wants) or (yield wants)
                if ready:
                    began = 0.0
                else:
                    # the interval is over, and nothing has come
                    began = began or time.monotonic()
                    self._tell(time.monotonic() - began)
                wants = gen.send(ready)
        except StopIteration as end:
            result: _Result = end.value
            return result

    def _work_until(self, wants: Wait) -> Ready:
        """Work until the socket is ready or nothing is left to do; what it is ready for."""
        poller = select.poll()
        poller.register(self.pgconn.socket, _EVENTS[wants])
        while True:
            # first of all, so that the server does not wait for us
            for _, events in poller.poll(0):
                return _ready(wants, events)
            if not self._does_a_piece():
                return Ready.NONE

    def _tell(self, seconds: float) -> None:
        try:
            self.silence(seconds)
        except BaseException:
            # nobody waits for the answer any more
            self.close()
            raise

    def _does_a_piece(self) -> bool:
        try:
            return self.meanwhile()
        except BaseException:
            # Ctrl-C, or no memory: who waits for the server's answer is gone with it
            self.close()
            raise


_EVENTS: Final = {
    Wait.R: select.POLLIN,
    Wait.W: select.POLLOUT,
    Wait.RW: select.POLLIN | select.POLLOUT,
}


def _ready(wants: Wait, events: int) -> Ready:
    """What of it is there. A broken connection is ready for all: libpq finds out what it has."""
    if events & ~(select.POLLIN | select.POLLOUT):
        return Ready(int(wants))
    return Ready((Ready.R if events & select.POLLIN else 0) | (Ready.W if events & select.POLLOUT else 0))
