"""How long to wait before something is tried again."""

from __future__ import annotations

import random
from typing import Final

import msgspec

_SPREAD: Final = 0.25
_DOUBLINGS: Final = 30


class Backoff(msgspec.Struct, frozen=True):
    """Doubles from `first` to `longest` seconds. Some less by chance, so that many who wait do not come back together."""

    first: float
    longest: float

    def seconds(self, failures: int) -> float:
        """The wait after so many failures in a row, from 1."""
        whole = min(self.first * 2.0 ** min(failures - 1, _DOUBLINGS), self.longest)
        return whole * random.uniform(1 - _SPREAD, 1)  # noqa: S311 - nobody gains by guessing it
