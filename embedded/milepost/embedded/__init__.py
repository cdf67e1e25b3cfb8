"""A real Kafka and a real Postgres on one machine, from packages alone: for demo, tests and trial."""

from milepost.embedded.errors import (
    DownloadFailed,
    EmbeddedError,
    JarRefused,
    MissingProgram,
    ServerFailed,
    UnusableFolder,
)
from milepost.embedded.settings import ServerName
from milepost.embedded.stack import Stack
from milepost.embedded.status import ServerStatus, StackStatus

__all__ = [
    "DownloadFailed",
    "EmbeddedError",
    "JarRefused",
    "MissingProgram",
    "ServerFailed",
    "ServerName",
    "ServerStatus",
    "Stack",
    "StackStatus",
    "UnusableFolder",
]
