"""What the two servers have in common: how one is prepared, started, asked whether it answers, and stopped."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import psutil

    from milepost.embedded.process import Launch
    from milepost.embedded.settings import ServerName


class NotReady(Exception):
    """The server does not answer yet; the message says how it failed to."""


class Server(ABC):
    """One of the two, in one stack's folder. Knows nothing of pids and records; `Keeper` does."""

    name: ClassVar[ServerName]
    title: ClassVar[str]
    ports_needed: ClassVar[int]
    # the signals that stop it, gentlest first, each with the seconds given to it
    stopping: ClassVar[Sequence[tuple[int, float]]]
    # seconds within which it answers, recovery after a crash included
    ready_limit: ClassVar[float]

    @property
    @abstractmethod
    def data(self) -> Path:
        """The folder of its data, whether it exists or not."""

    @property
    @abstractmethod
    def signature(self) -> Sequence[str]:
        """Arguments that together stand in this server's command line and in no other process's."""

    @abstractmethod
    def find_programs(self) -> str:
        """Finds what it is run with, fetched if need be; returns the version. Repeatable. Raises EmbeddedError."""

    @abstractmethod
    def prepare(self, ports: Sequence[int]) -> Launch:
        """Makes its data folder if there is none; says how to start it. After `find_programs`, not while it runs."""

    @abstractmethod
    def ask(self, port: int, limit: float) -> None:
        """Returns when it answers as ours does; raises NotReady. Blocks for `limit` seconds or a little more."""

    def settle(self, port: int) -> None:  # noqa: B027 - most have nothing to do
        """What is to be done each time it has begun to answer."""

    def left_behind(self) -> list[psutil.Process]:
        """Processes that outlived the server's own: none but after it was killed."""
        return []
