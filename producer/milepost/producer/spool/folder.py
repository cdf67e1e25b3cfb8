"""The files of a spool's folder: their names, whose they are, and the lock that says who cares for them.

Each publisher has a number of segments, `ID-NUMBER.spool`, and one lock, `ID.lock`, held by `flock` for as long as its
process lives. Who gets a dead publisher's lock sends its rest.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

SUFFIX: Final = ".spool"
DAMAGED: Final = ".damaged"
FOREIGN: Final = ".foreign"
_SEGMENT: Final = re.compile(r"([0-9a-f]{32})-([0-9]{8})\.spool")
_OURS: Final = re.compile(r"\.?[0-9a-f]{32}(?:\.lock|\.new|-[0-9]{8}\.spool(?:\.damaged|\.foreign)?)")


class SegmentName(NamedTuple):
    """A segment's name, taken apart; sorts by publisher, oldest first, then by number."""

    publisher: str
    number: int

    def __str__(self) -> str:
        return f"{self.publisher}-{self.number:08}{SUFFIX}"


class Listing(NamedTuple):
    """What a folder holds."""

    segments: dict[str, list[int]]
    """The numbers of each publisher's segments, in order; publishers by age."""
    damaged: list[str]
    """Names of files that were set aside."""
    foreign: list[str]
    """Names of files that are not ours."""


def list_folder(folder: Path) -> Listing:
    """What is there now; nothing when there is no folder. Raises `OSError` when it can't be read."""
    segments: dict[str, list[int]] = {}
    damaged, foreign = [], []
    try:
        with os.scandir(folder) as entries:
            names = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
    except FileNotFoundError:
        names = []
    for name, is_folder in names:
        if is_folder:
            foreign.append(name)
        elif match := _SEGMENT.fullmatch(name):
            segments.setdefault(match[1], []).append(int(match[2]))
        elif name.endswith(DAMAGED) and _OURS.fullmatch(name):
            damaged.append(name)
        elif not _OURS.fullmatch(name) or name.endswith(FOREIGN):
            foreign.append(name)
    return Listing(segments, damaged, foreign)


def round_up(size: int, step: int) -> int:
    """What a segment of this size has been granted: publishers ask again before they pass a step."""
    return -(-size // step) * step


def used_bytes(folder: Path, step: int) -> int:
    """What the folder holds; a living publisher's newest segment counts up to the step to which it may grow unasked."""
    total = 0
    newest: dict[str, tuple[int, int]] = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                size = entry.stat(follow_symlinks=False).st_size
                total += size
                if match := _SEGMENT.fullmatch(entry.name):
                    newest[match[1]] = max(newest.get(match[1], (-1, 0)), (int(match[2]), size))
    return total + sum(
        round_up(size, step) - size for publisher, (_, size) in newest.items() if is_alive(folder, publisher)
    )


class Claim:
    """The right to send a publisher's segments and to remove them. Ends with the process at the latest."""

    def __init__(self, path: Path, fd: int) -> None:
        self._path: Final = path
        self._fd = fd

    @classmethod
    def new(cls, folder: Path, publisher_id: UUID) -> Claim:
        """For a publisher that begins; makes the folder. Raises `OSError`."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path, hidden = folder / f"{publisher_id.hex}.lock", folder / f".{publisher_id.hex}.new"
        fd = os.open(hidden, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            hidden.rename(path)  # nobody sees it before it is locked
        except OSError:
            os.close(fd)
            raise
        return cls(path, fd)

    @classmethod
    def of_dead(cls, folder: Path, publisher: str) -> Claim | None:
        """For the rest of another publisher; None when it lives, or somebody else has it. Raises `OSError`."""
        path = folder / f"{publisher}.lock"
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            return None
        if os.fstat(fd).st_nlink == 0:  # whoever had it has sent everything, and removed it
            os.close(fd)
            return None
        return cls(path, fd)

    def release(self, *, remove: bool) -> None:
        """Give it up; `remove` when there is nothing left that it stands for. May be called again."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            if remove:
                with contextlib.suppress(OSError):
                    self._path.unlink()
            os.close(fd)


def is_alive(folder: Path, publisher: str) -> bool:
    """Whether some process cares for a publisher's segments now."""
    try:
        fd = os.open(folder / f"{publisher}.lock", os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False
