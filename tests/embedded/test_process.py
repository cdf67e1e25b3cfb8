"""A process is recognized, and never confused with another."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import psutil
import pytest

from milepost.embedded.process import recorded

if TYPE_CHECKING:
    from collections.abc import Iterator

SIGNATURE = ("the", "server")


@pytest.fixture
def server() -> Iterator[psutil.Process]:
    """A live process that bears the signature."""
    with subprocess.Popen([sys.executable, "-c", "input()", *SIGNATURE], stdin=subprocess.PIPE) as process:
        yield psutil.Process(process.pid)
        process.kill()


def test_a_process_that_is_changing_its_program_is_still_itself(
    server: psutil.Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Linux shows an empty command line until execve has set up the new one
    monkeypatch.setattr(psutil.Process, "cmdline", lambda _: [])
    assert recorded(server.pid, server.create_time(), SIGNATURE) == server


def test_another_program_or_another_birth_is_a_stranger(server: psutil.Process) -> None:
    assert recorded(server.pid, server.create_time(), SIGNATURE) == server
    assert recorded(server.pid, server.create_time(), ("another",)) is None
    assert recorded(server.pid, server.create_time() - 60, SIGNATURE) is None
    server.kill()
    server.wait()
    assert recorded(server.pid, 0.0, SIGNATURE) is None
