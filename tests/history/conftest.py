"""The kinds of stores of tests/store, for the questions to history."""

from __future__ import annotations

from tests.store.conftest import log, served

__all__ = ["log", "served"]
