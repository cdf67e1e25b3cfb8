"""What a publisher's spool is told."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec

from milepost.schemas import InvalidSetting

DEFAULT_LIMIT_BYTES: Final = 1024 * 1024 * 1024
LEAST_LIMIT_BYTES: Final = 1024 * 1024
USUAL_SEGMENT_BYTES: Final = 8 * 1024 * 1024
MOST_SEGMENTS: Final = 128
"""Each holds a file descriptor."""
STEPS: Final = 16
"""In how many a segment grows."""
_LONGEST_NAME: Final = 255
_LONGEST_PATH: Final = 4_000
"""With room for the names of the files."""


class Spool(msgspec.Struct, frozen=True):
    """A log on disk in front of the publisher: what `publish` took outlives the process.

    Raises `InvalidSetting`, naming what is at fault.
    """

    path: str | os.PathLike[str]
    """A folder of a local disk; made when it is not there. Publishers of one topic share it, also across processes."""
    fsync: bool = False
    """Whether `publish` waits until the disk has the event, so that it outlives a power cut too: milliseconds each."""
    limit_bytes: int = DEFAULT_LIMIT_BYTES
    """What all files of the folder may hold together; an event that would pass it fails as `spool_full`."""

    def __post_init__(self) -> None:
        if not isinstance(self.path, str | os.PathLike):
            raise InvalidSetting(f"spool: expected the path of a folder, found {self.path!r}")
        _check_path(os.fspath(self.path))
        try:
            is_other = self.folder.exists() and not self.folder.is_dir()
        except OSError as error:
            raise InvalidSetting(f"spool: {error}") from error
        if is_other:
            raise InvalidSetting(f"spool: expected a folder, found a file at {self.folder}")
        if type(self.fsync) is not bool:
            raise InvalidSetting(f"spool: fsync: expected a bool, found {self.fsync!r}")
        if type(self.limit_bytes) is not int or self.limit_bytes < LEAST_LIMIT_BYTES:
            raise InvalidSetting(
                f"spool: limit_bytes: expected a number of bytes, {LEAST_LIMIT_BYTES} or more, found {self.limit_bytes!r}"
            )

    @property
    def folder(self) -> Path:
        """The path, absolute: a later change of the working folder does not move it."""
        return Path(self.path).absolute()

    @property
    def segment_bytes(self) -> int:
        """How large a file grows before the next one begins: the unit in which space comes back."""
        return max(min(USUAL_SEGMENT_BYTES, self.limit_bytes // 16), self.limit_bytes // MOST_SEGMENTS)

    @property
    def step_bytes(self) -> int:
        """How far a file grows before its publisher looks at the limit again: what each living one may hold in reserve."""
        return self.segment_bytes // STEPS


def _check_path(path: object) -> None:
    """Raises `InvalidSetting` for what no system could make a folder of."""
    if not isinstance(path, str) or not path or "\0" in path:
        raise InvalidSetting(f"spool: expected the path of a folder, found {path!r}")
    try:
        raw = os.fsencode(Path(path).absolute())
    except UnicodeError:
        raise InvalidSetting(f"spool: expected the path of a folder, found one that is no text: {path!r}") from None
    if len(raw) > _LONGEST_PATH or any(len(name) > _LONGEST_NAME for name in raw.split(b"/")):
        raise InvalidSetting(f"spool: the path is too long, or a name in it: {path[:100]!r}...")


def spool_of(value: object) -> Spool | None:
    """The settings in what was given as `spool`: a path, a `Spool`, or None. Raises `InvalidSetting`."""
    if value is None:
        return None
    # a folder that is relative now must stay the same one after a change of the working folder
    given = value if isinstance(value, Spool) else Spool(value)  # type: ignore[arg-type]
    return Spool(str(given.folder), given.fsync, given.limit_bytes)
