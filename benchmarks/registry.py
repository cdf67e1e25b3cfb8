"""All benchmarks, by name."""

from __future__ import annotations

from typing import Final

from benchmarks import publish
from benchmarks.bench import Bench

BENCHES: Final[dict[str, Bench]] = {bench.name: bench for bench in (publish.BENCH,)}
