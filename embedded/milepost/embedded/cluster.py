"""Postgres' data on disk: where it is, whose it is, and how it is made."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from milepost.embedded import identity
from milepost.embedded.errors import ServerFailed, UnusableFolder
from milepost.embedded.process import Launch, run
from milepost.embedded.settings import DATABASE_USER, POSTGRES_INITDB

if TYPE_CHECKING:
    from milepost.embedded.postgres_programs import PostgresPrograms

_INITDB_LIMIT = 120.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """The data folder of one cluster, named by the major version that alone can read it, and as whom it is served."""

    data: Path
    identity: str

    @property
    def major(self) -> int:
        """The version of the data."""
        return int(self.data.name)


def existing_data(directory: Path) -> Path | None:
    """The data folder of the stack in `directory`, wherever root had to put it, or None."""
    for home in (directory, identity.home_for(directory)):
        for marker in sorted(home.glob("postgres/*/PG_VERSION")):
            if marker.parent.name.isdigit():
                return marker.parent
    return None


def folders_of(directory: Path) -> list[Path]:
    """Everything that belongs to Postgres in this stack and may be removed with it."""
    elsewhere = identity.home_for(directory)
    return [directory / "postgres", *([elsewhere] if elsewhere != directory else [])]


def locate(directory: Path, programs: PostgresPrograms) -> Cluster:
    """Where the cluster is, or is to be. Touches nothing."""
    data = existing_data(directory) or directory / "postgres" / str(programs.major)
    who = identity.choose_identity(data, programs.bin / "postgres")
    if identity.owner_of(who) is not None and not data.exists():
        data = identity.home_for(directory) / "postgres" / str(programs.major)
    return Cluster(data, who)


def initialise(cluster: Cluster, programs: PostgresPrograms, password: str) -> None:
    """Makes the cluster, all or nothing. Raises ServerFailed with initdb's words."""
    identity.make_passable(cluster.data.parent)
    for left_behind in cluster.data.parent.glob("*.new"):
        shutil.rmtree(left_behind, ignore_errors=True)
    # a name of its own: an initdb whose caller was killed may still be at work
    half = Path(tempfile.mkdtemp(suffix=".new", dir=cluster.data.parent))
    password_file = half.with_suffix(".password")
    write_secret(password_file, password)
    if owner := identity.owner_of(cluster.identity):
        os.chown(half, *owner)
        os.chown(password_file, *owner)
    arguments = [
        f"--username={DATABASE_USER}",
        "--auth-local=scram-sha-256",
        f"--pwfile={password_file}",
        *POSTGRES_INITDB,
    ]
    try:
        command = [str(programs.bin / "initdb"), *arguments, "-D", str(half)]
        launch = Launch(command=command, folder=half, environment=clean_environment(), identity=cluster.identity)
        done = run(launch, _INITDB_LIMIT)
    finally:
        password_file.unlink()
    if done.returncode != 0:
        raise ServerFailed(f"initdb could not make {cluster.data}:\n{(done.stdout + done.stderr).strip()}")
    half.rename(cluster.data)


def remembered_password(file: Path, *, fresh: bool) -> str:
    """The password in `file`; with `fresh` a new one is written when there is none.

    Raises UnusableFolder when it is gone or someone else's.
    """
    try:
        return file.read_text("ascii").strip()
    except FileNotFoundError as error:
        if not fresh:
            message = (
                f"Postgres' password is gone: expected it in {file}. Put it back, or destroy the stack and begin anew."
            )
            raise UnusableFolder(message) from error
    except OSError as error:
        raise UnusableFolder(f"can't read {file}: {error.strerror}. Use the stack as the user who made it.") from error
    password = secrets.token_urlsafe(24)
    write_secret(file, password)
    return password


def write_secret(file: Path, text: str) -> None:
    """Writes a file that only its owner can read, from the first moment on."""
    file.unlink(missing_ok=True)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as stream:
        stream.write(text + "\n")


def clean_environment() -> dict[str, str]:
    """Ours without PGDATA, PGPORT and their like, and with messages in English."""
    return {k: v for k, v in os.environ.items() if not k.startswith("PG")} | {"LC_ALL": "C"}
