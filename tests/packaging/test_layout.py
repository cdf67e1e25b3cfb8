"""What packaging must keep: one namespace, what the wheel holds, what a publisher imports, and a lock that is one."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import tomllib
from importlib.metadata import distribution, version
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PARTS = ("schemas", "producer", "consumer", "embedded")
PUBLIC = (
    "milepost.schemas",
    "milepost.producer",
    "milepost.producer.testing",
    "milepost.consumer",
    "milepost.consumer.testing",
    "milepost.embedded",
)


def test_no_part_closes_the_namespace() -> None:
    assert [path for part in PARTS for path in (ROOT / part).glob("milepost/__init__.py")] == []
    assert [path.name for part in PARTS for path in (ROOT / part).iterdir() if path.name != "README.md"] == [
        "milepost"
    ] * 4


@pytest.mark.parametrize("part", PARTS)
def test_each_part_is_typed(part: str) -> None:
    assert (ROOT / part / "milepost" / part / "py.typed").is_file()


def test_the_tests_run_against_the_installed_wheel() -> None:
    """`make test` installs the wheel; an editable install is for development alone."""
    direct = distribution("milepost").read_text("direct_url.json") or ""
    if '"editable":true' in direct.replace(" ", ""):
        pytest.xfail("an editable install: make test runs against the wheel")
    for part in PARTS:
        module = importlib.import_module(f"milepost.{part}")
        assert module.__file__ is not None
        assert "site-packages" in module.__file__


def test_the_wheel_holds_what_is_no_python() -> None:
    names = {str(file) for file in distribution("milepost").files or ()}
    if not any("milepost/schemas" in name for name in names):
        pytest.xfail("an editable install holds no files")
    for name in (
        "milepost/consumer/sql/migrations/0001_initial.sql",
        "milepost/consumer/sql/queries/materialize.sql",
        "milepost/consumer/py.typed",
        "milepost/embedded/jars.sha256",
    ):
        assert name in names
    assert not [name for name in names if name.startswith(("tests/", "docs/"))]


def test_the_producer_imports_no_psycopg() -> None:
    code = (
        "import sys, milepost.producer, milepost.schemas; "
        "print(sorted(name for name in sys.modules if name.partition('.')[0] in "
        "{'psycopg', 'psycopg_pool', 'click', 'rich', 'tenacity'} or name.startswith('milepost.consumer')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", PUBLIC)
def test_what_is_exported_is_sorted_and_there(name: str) -> None:
    module = importlib.import_module(name)
    exported = list(module.__all__)
    assert exported == sorted(exported, key=lambda entry: (not entry.isupper(), entry))
    assert [entry for entry in exported if not hasattr(module, entry)] == []


def test_init_files_hold_imports_alone() -> None:
    for part in PARTS:
        for path in (ROOT / part).rglob("__init__.py"):
            text = re.sub(r'"""[\s\S]*?"""|\([^)]*\)|\[[^\]]*\]', "", path.read_text())
            lines = [line for line in text.splitlines() if line.strip() and not line.startswith("from ")]
            assert [line for line in lines if line.strip() != "__all__ ="] == [], path


def test_the_lock_has_hashes_and_no_addresses() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    assert "://" not in lock
    assert not re.search(r"^\s*(-i|-f|--(extra-)?index-url|--find-links)", lock, re.MULTILINE)
    pinned = re.findall(r"^[a-z0-9][\w.\-]*(?:\[[\w,]+\])?==\S+(.*)$", lock, re.MULTILINE)
    assert len(pinned) > 30
    assert lock.count("--hash=sha256:") >= len(pinned)


def test_the_lock_pins_what_pyproject_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = [
        *project["project"]["dependencies"],
        *(entry for extra in project["project"]["optional-dependencies"].values() for entry in extra),
        *project["dependency-groups"]["dev"],
    ]
    names = {re.split(r"[\[><=;]", entry)[0].strip().replace(".", "-") for entry in wanted} - {"milepost"}
    pinned = set(re.findall(r"^([a-z0-9][\w.\-]*)", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    assert names <= pinned


def test_the_version_is_the_distributions() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert version("milepost") == project["project"]["version"]
    assert f"## {version('milepost')}" in (ROOT / "CHANGELOG.md").read_text()
