"""The fixtures that every test may ask for. The servers are real; where they can't be had, the run fails."""

from __future__ import annotations

pytest_plugins = ["tests.fixtures.servers", "tests.fixtures.commands"]
