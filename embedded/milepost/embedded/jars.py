"""Kafka's jars: pinned by SHA-256, fetched once per user, checked before a JVM sees them."""

from __future__ import annotations

import json
import os
import pwd
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from filelock import FileLock

from milepost.embedded.download import digest_of, fetch
from milepost.embedded.errors import JarRefused, UnusableFolder
from milepost.embedded.settings import KAFKA_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def pinned() -> dict[str, str]:
    """The place of each jar in a Maven repository and its SHA-256 in hex, from jars.sha256."""
    lines = files("milepost.embedded").joinpath("jars.sha256").read_text("utf-8").splitlines()
    return {place: digest for digest, place in (line.split(maxsplit=1) for line in lines)}


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where this user's downloads are kept: MILEPOST_CACHE, else XDG_CACHE_HOME/milepost, else ~/.cache/milepost.

    Raises UnusableFolder when none is set and the user has no home.
    """
    if chosen := environ.get("MILEPOST_CACHE"):
        return Path(chosen).absolute()
    xdg = environ.get("XDG_CACHE_HOME", "")
    if Path(xdg).is_absolute():
        return Path(xdg, "milepost")
    home = environ.get("HOME") or _home_of_user()
    if not home:
        raise UnusableFolder(
            "no home folder to keep Kafka's jars in: set HOME, or MILEPOST_CACHE to a folder you can write"
        )
    return Path(home, ".cache", "milepost")


def _home_of_user() -> str | None:
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return None


class JarCache:
    """The verified jars in one cache folder. Shared by all stacks of a user, and safe when several fill it at once.

    `libs` holds only files that were verified before they were moved in; still it is checked before each start.
    """

    def __init__(self, folder: Path, pins: Mapping[str, str] | None = None) -> None:
        """Touches nothing. `pins` replaces jars.sha256 (for tests)."""
        self.folder = folder / f"kafka-{KAFKA_VERSION}"
        self.libs = self.folder / "libs"
        self._pins = pinned() if pins is None else pins
        self._digests = {PurePosixPath(place).name: digest for place, digest in self._pins.items()}
        self._marker = self.folder / "verified.json"

    def ready(self, progress: Callable[[str], None]) -> Path:
        """The folder that holds exactly the pinned jars, fetching what lacks.

        Raises JarRefused, DownloadFailed, UnusableFolder.
        """
        try:
            if self._missing():
                self._fill(progress)
            self._verify()
        except OSError as error:
            message = f"can't use the cache {self.folder}: {error}. Set MILEPOST_CACHE to a folder you can write."
            raise UnusableFolder(message) from error
        return self.libs

    def _missing(self) -> dict[str, str]:
        present = {path.name for path in self.libs.glob("*")}
        return {place: digest for place, digest in self._pins.items() if PurePosixPath(place).name not in present}

    def _fill(self, progress: Callable[[str], None]) -> None:
        self.libs.mkdir(parents=True, exist_ok=True)
        with FileLock(self.folder / "lock"):
            # another process may have fetched them while this one waited
            if missing := self._missing():
                progress(f"Kafka {KAFKA_VERSION}: fetching {len(missing)} jars, once, into {self.libs}")
                fetch(missing, self.libs, self.folder)

    def _verify(self) -> None:
        """A file of the size and time it had when it was last hashed is not hashed again."""
        known = self._known()
        now: dict[str, list[int]] = {}
        for path in sorted(self.libs.iterdir()):
            expected = self._digests.get(path.name)
            stat = path.stat()
            now[path.name] = [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]
            if expected is None or known.get(path.name) != now[path.name]:
                found = digest_of(path)
                if found != expected:
                    raise JarRefused(path.name, expected=expected, found=found, advice=_advice(path))
        if now != known:
            self._remember(now)

    def _known(self) -> dict[str, list[int]]:
        try:
            known = json.loads(self._marker.read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return known if isinstance(known, dict) else {}

    def _remember(self, now: dict[str, list[int]]) -> None:
        new = self._marker.with_suffix(f".{os.getpid()}")
        try:
            new.write_text(json.dumps(now), "utf-8")
            new.replace(self._marker)
        except OSError:
            return  # a cache that someone else owns: hash each time, 0.1 s


def _advice(path: Path) -> str:
    return f"If that is not your doing, ask who can write to {path.parent}. Remove {path} and run the command again."
