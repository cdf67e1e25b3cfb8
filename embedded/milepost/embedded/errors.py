"""Every error of the embedded stack, in one tree that stands apart from milepost's own.

EmbeddedError
├── MissingProgram    Java or Postgres is not on this machine, or is too old
├── JarRefused        a jar is not the one that is pinned
├── DownloadFailed    the jars could not be fetched
├── ServerFailed      a server ended, or did not answer in time
└── UnusableFolder    the stack's folder or the cache can't be used, or was never set up

Each message says what was expected, what was found, and what to do.
"""

from __future__ import annotations


class EmbeddedError(Exception):
    """The embedded stack could not do what was asked; the message is for a person."""


class MissingProgram(EmbeddedError):
    """Java or Postgres is missing or too old; the message lists where was looked and what was found there."""


class JarRefused(EmbeddedError):
    """A jar is not the pinned one, or is none of the pinned ones (`expected` is None). Digests are SHA-256 in hex."""

    def __init__(self, name: str, *, expected: str | None, found: str, advice: str) -> None:
        self.name = name
        self.expected = expected
        self.found = found
        self.advice = advice
        super().__init__(name, expected, found, advice)

    def __str__(self) -> str:
        expected = "none, since it is none of Kafka's pinned jars" if self.expected is None else self.expected
        return f"{self.name} is refused: expected SHA-256 {expected}, found {self.found}. {self.advice}"

    def __reduce__(self) -> tuple[object, ...]:
        return _jar_refused, (self.name, self.expected, self.found, self.advice)


def _jar_refused(name: str, expected: str | None, found: str, advice: str) -> JarRefused:
    return JarRefused(name, expected=expected, found=found, advice=advice)


class DownloadFailed(EmbeddedError):
    """Kafka's jars could not be fetched; nothing half fetched is kept."""


class ServerFailed(EmbeddedError):
    """A server ended or did not answer in time; the message ends with the last lines of its log."""


class UnusableFolder(EmbeddedError):
    """The stack's folder or the cache can't be read or written, or no stack was ever set up in it."""
