"""Python's garbage collector, told that a consumer makes many objects a second and hardly any cycles."""

from __future__ import annotations

import gc
from typing import Final

_OBJECTS: Final = 50_000
"""The default, 700, looks at the objects of a batch a hundred times: a tenth of the processor's time (docs/performance.md)."""


def collect_rarely() -> None:
    """Collect seldom, and never look again at what lives as long as the process."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_OBJECTS, 20, 20)
