"""As whom the stack runs: root in a user namespace, root by way of nobody, an ordinary user."""

from __future__ import annotations

import os
import pwd
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from milepost.embedded import Stack, identity
from milepost.embedded.jars import JarCache, cache_folder
from milepost.embedded.postgres_programs import find_postgres
from milepost.embedded.process import Launch, run

from .helpers import processes_of, read_postgres, write_postgres

if TYPE_CHECKING:
    from collections.abc import Iterator

_IS_ROOT = os.geteuid() == 0
_LIFE = """
import os, sys
from milepost.embedded import Stack
stack = Stack(sys.argv[1])
status = stack.up()
assert os.geteuid() != 0
assert status.all_ready
assert stack.up() == status
stack.down()
assert not stack.status().kafka.running
print("lived")
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everyone can pass, unlike pytest's."""
    with tempfile.TemporaryDirectory(prefix="milepost-") as folder:
        Path(folder).chmod(0o711)
        yield Path(folder)


def test_an_ordinary_user_needs_only_a_cache_to_read(open_folder: Path) -> None:
    home, cache = open_folder / "home", open_folder / "cache"
    home.mkdir()
    libs = JarCache(cache_folder()).ready(print)
    shutil.copytree(libs, cache / libs.parent.name / libs.name)
    everything = [Path(sys.executable), Path(sys.prefix), Path(identity.__file__)]
    nobody = pwd.getpwnam("nobody")
    if not _IS_ROOT:
        who = "same"
    elif all(map(identity.reachable_by_all, everything)):
        who = f"{nobody.pw_uid}:{nobody.pw_gid}"
        os.chown(home, nobody.pw_uid, nobody.pw_gid)
    else:  # Python itself is root's alone
        who = "namespace"
    environment = {"HOME": str(home), "MILEPOST_CACHE": str(cache), "PATH": os.environ["PATH"]}
    command = [sys.executable, "-c", _LIFE, str(home / "stack")]
    done = run(Launch(command=command, folder=home, environment=environment, identity=who), 120)
    assert done.stdout == "lived\n", done.stderr
    assert processes_of(home) == []
    # nothing was left in the user's home but the stack
    assert [path.name for path in home.iterdir()] == ["stack"]


@pytest.mark.parametrize("reachable", [True, False])
def test_root_without_namespaces_serves_as_nobody(
    monkeypatch: pytest.MonkeyPatch, open_folder: Path, tmp_path: Path, reachable: bool
) -> None:
    monkeypatch.setenv("MILEPOST_RUN_AS", "nobody")
    tmp_path.chmod(0o700)
    stack = Stack((open_folder if reachable else tmp_path) / "stack")
    try:
        stack.start("postgres")
        status = stack.status()
        write_postgres(status.database, "kept")
        user = "nobody" if _IS_ROOT else pwd.getpwuid(os.geteuid()).pw_name
        assert psutil.Process(status.postgres.pid).username() == user
        assert status.postgres.data_dir.is_relative_to(stack.directory) == (reachable or not _IS_ROOT)
        stack.stop("postgres")
        # the data decides, whatever is wished later
        monkeypatch.setenv("MILEPOST_RUN_AS", "namespace")
        stack.start("postgres")
        assert psutil.Process(stack.status().postgres.pid).username() == user
        assert read_postgres(stack.status().database) == ["kept"]
    finally:
        stack.destroy()
    assert not status.postgres.data_dir.exists()
    assert processes_of(status.postgres.data_dir) == []


def test_programs_that_nobody_can_read_are_copied(tmp_path: Path, open_folder: Path) -> None:
    found = find_postgres()
    assert identity.readable_copy(Path("/usr/bin"), open_folder, "1") == Path("/usr/bin")
    tmp_path.chmod(0o700)
    hidden = tmp_path / "install"
    (hidden / "bin").mkdir(parents=True, mode=0o700)
    shutil.copyfile(found.bin / "initdb", hidden / "bin" / "postgres")
    (hidden / "bin" / "postgres").chmod(0o700)
    copy = identity.readable_copy(hidden / "bin", open_folder, found.version)
    assert identity.reachable_by_all(copy / "postgres")
    assert identity.readable_copy(hidden / "bin", open_folder, found.version) == copy
