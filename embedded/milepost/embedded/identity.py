"""As whom Postgres runs when we are root, since it refuses to run as root."""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import stat
from pathlib import Path

from milepost.embedded.errors import EmbeddedError
from milepost.embedded.process import Launch, run

# root's alone, so nobody else can have put anything there
_ROOTS_PLACE = Path("/var/lib/milepost")
_ANSWER_LIMIT = 20.0


def choose_identity(data: Path, trial: Path) -> str:
    """The identity to run Postgres with, as launch.py has it; existing `data` is served as its owner.

    Root's order: a user namespace, for which no file changes hands; else, where the system refuses one (many
    containers), the user nobody. MILEPOST_RUN_AS (`namespace`, `nobody`) decides for new data. `trial` is a program
    that must run in the namespace.
    """
    if os.geteuid() != 0:
        return "same"
    if data.exists() and (owner := data.stat()).st_uid != 0:
        return f"{owner.st_uid}:{owner.st_gid}"
    chosen = os.environ.get("MILEPOST_RUN_AS")
    if chosen == "nobody" and not data.exists():
        return _nobody()
    answer = run(
        Launch(command=[str(trial), "--version"], folder=Path("/"), environment={}, identity="namespace"), _ANSWER_LIMIT
    )
    if answer.returncode == 0:
        return "namespace"
    if data.exists() or chosen == "namespace":
        message = (
            f"Postgres does not run as root; {data} is root's and so to be served in a user namespace, which the system "
            f"refuses: {answer.stderr.strip()}. Allow user namespaces, or run as an ordinary user, or unset "
            "MILEPOST_RUN_AS and use a new folder."
        )
        raise EmbeddedError(message)
    return _nobody()


def owner_of(identity: str) -> tuple[int, int] | None:
    """The user and group to give files to, or None when the caller's own will do."""
    if ":" not in identity:
        return None
    user, group = identity.split(":")
    return int(user), int(group)


def home_for(directory: Path) -> Path:
    """Where root keeps data for another user: the stack's folder when everyone can reach it, else a place of its own.

    Touches nothing.
    """
    if reachable_by_all(directory):
        return directory
    return _ROOTS_PLACE / hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]


def reachable_by_all(path: Path) -> bool:
    """Whether everyone may pass all folders down to `path`, or run it; what does not exist yet is taken as passable."""
    return all(not p.exists() or p.stat().st_mode & stat.S_IXOTH for p in (path, *path.parents))


def make_passable(folder: Path) -> None:
    """Makes `folder` such that everyone can pass through it and only its owner can look around, whatever the umask."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o711)
    if folder.is_relative_to(_ROOTS_PLACE):
        _ROOTS_PLACE.chmod(0o711)
        for parent in folder.parents[: len(folder.relative_to(_ROOTS_PLACE).parts) - 1]:
            parent.chmod(0o711)


def readable_copy(bin_folder: Path, home: Path, version: str) -> Path:
    """A bin folder whose programs everyone can run: `bin_folder`, or that of a copy of its installation in `home`."""
    if reachable_by_all(bin_folder / "postgres"):
        return bin_folder
    copy = home / f"postgres-programs-{version}"
    if not copy.exists():
        half = copy.with_suffix(".new")
        shutil.rmtree(half, ignore_errors=True)
        shutil.copytree(bin_folder.parent, half, symlinks=True)
        for path in (half, *half.rglob("*")):
            if not path.is_symlink():
                mode = path.stat().st_mode
                path.chmod(mode | (0o055 if mode & stat.S_IXUSR else 0o044))
        half.rename(copy)
    return copy / bin_folder.name


def _nobody() -> str:
    try:
        entry = pwd.getpwnam("nobody")
    except KeyError as error:
        message = (
            "Postgres does not run as root, user namespaces are refused, and no user nobody is here: use another user"
        )
        raise EmbeddedError(message) from error
    return f"{entry.pw_uid}:{entry.pw_gid}"
