"""The fixtures that every test may ask for. The servers are real; where they can't be had, the run fails."""

from __future__ import annotations

import os

from hypothesis import settings

# a broker lives for seconds here: Java's second compiler would take more than it gives, half of all its processor time
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")

# what a law costs hangs on the machine; pytest's own limit ends what hangs
settings.register_profile("milepost", deadline=None)
settings.load_profile("milepost")

pytest_plugins = ["tests.fixtures.servers", "tests.fixtures.commands"]
