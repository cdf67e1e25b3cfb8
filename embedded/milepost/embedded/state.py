"""What a stack remembers of each server between commands: its ports, its process, its version."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from milepost.embedded.errors import UnusableFolder

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One server as it was last started.

    A process is named by its pid and the time it was created (seconds since 1970): the pid alone may be someone
    else's by now.
    """

    ports: list[int] = field(default_factory=list)
    pid: int | None = None
    created: float | None = None
    version: str | None = None


def read_record(file: Path) -> Record:
    """The record in `file`; an empty one when there is none. Raises UnusableFolder when it can't be understood."""
    try:
        found = json.loads(file.read_text("utf-8"))
        return Record(
            ports=[int(port) for port in found["ports"]],
            pid=None if found["pid"] is None else int(found["pid"]),
            created=None if found["created"] is None else float(found["created"]),
            version=None if found["version"] is None else str(found["version"]),
        )
    except FileNotFoundError:
        return Record()
    except OSError as error:
        raise UnusableFolder(f"can't read {file}: {error.strerror}. Use the stack as the user who made it.") from error
    except (ValueError, KeyError, TypeError) as error:
        message = f"{file} is not what milepost wrote ({error!r}). Stop its server if it runs, then remove the file."
        raise UnusableFolder(message) from error


def write_record(file: Path, record: Record) -> None:
    """Replaces `file` in one step: a reader sees the old record or the new one."""
    new = file.with_suffix(".new")
    new.write_text(json.dumps(asdict(record)) + "\n", "utf-8")
    os.replace(new, file)  # noqa: PTH105 - the same thing, and atomic by its documentation
