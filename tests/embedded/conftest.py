"""A stack in a folder of its own, never left running."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from milepost.embedded import Stack

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    """Not started."""
    stack = Stack(tmp_path / "a stack")
    yield stack
    stack.destroy()


@pytest.fixture(scope="package")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Up, and to be left as it is: for tests that only look."""
    stack = Stack(tmp_path_factory.mktemp("running"))
    stack.up()
    yield stack
    stack.destroy()
