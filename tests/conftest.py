"""The fixtures that every test may ask for. The servers are real; where they can't be had, the run fails."""

from __future__ import annotations

from hypothesis import settings

# what a law costs hangs on the machine; pytest's own limit ends what hangs
settings.register_profile("milepost", deadline=None)
settings.load_profile("milepost")

pytest_plugins = ["tests.fixtures.servers", "tests.fixtures.commands"]
