"""What `Stack.status` answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from milepost.embedded.errors import UnusableFolder

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatus:
    """One server now. `running`: its process is there; `ready`: it answers clients.

    `address` is `127.0.0.1:PORT` and, with `version`, that of the last start: None before the first.
    """

    running: bool
    ready: bool
    pid: int | None
    address: str | None
    version: str | None
    data_dir: Path
    log_file: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class StackStatus:
    """Both servers now."""

    directory: Path
    kafka: ServerStatus
    postgres: ServerStatus
    # holds the password
    conninfo: str | None = field(repr=False)

    @property
    def all_ready(self) -> bool:
        """Whether both answer."""
        return self.kafka.ready and self.postgres.ready

    @property
    def kafka_address(self) -> str:
        """`127.0.0.1:PORT` for bootstrap.servers. Raises UnusableFolder when no stack was ever set up here."""
        return self._known(self.kafka.address)

    @property
    def database(self) -> str:
        """A conninfo, password included. Raises UnusableFolder when no stack was ever set up here."""
        return self._known(self.conninfo)

    def _known(self, value: str | None) -> str:
        if value is None:
            message = f"no stack was ever set up in {self.directory}: run `milepost embedded up --dir {self.directory}`"
            raise UnusableFolder(message)
        return value
