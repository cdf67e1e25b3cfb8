"""`python -m benchmarks.profiled FILE COMMAND…`: milepost's command line, with the processor time of its parts written to FILE.

A part's time is its own, without the parts that it calls. Looking at the clock costs about a microsecond for each call of a part.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import msgspec

from milepost.consumer.cli.commands import run

PARTS: Final = {
    "fetch": [("milepost.consumer.fetcher", "Fetcher.fetch")],
    "headers": [("milepost.consumer.records", "decode")],
    "check": [("milepost.schemas.codec.decode", "check_state")],
    "hash": [("milepost.schemas.codec.decode", "sha256")],
    "heads": [("milepost.consumer.materializer", "load_heads"), ("milepost.consumer.materializer", "load_known")],
    "plan": [("milepost.consumer.plan", "Plan.add")],
    "chains": [("milepost.consumer.plan", "extend"), ("milepost.consumer.plan", "extend_partition")],
    "rows": [("milepost.consumer.write", "checkpoint_values"), ("milepost.consumer.write", "history_values")],
    "copy": [("milepost.consumer.write", "_copy")],
    "sessions": [("milepost.consumer.write", "_upsert_sessions")],
    "other statements": [("milepost.consumer.write", "write_plan")],
    "batch": [("milepost.consumer.worker", "Worker._step")],
}


class Clock:
    """Processor time of this thread by part, and how long it waited."""

    def __init__(self) -> None:
        self.busy: dict[str, float] = defaultdict(float)
        self.waited = 0.0
        self._inner: list[float] = [0.0]

    def part(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, timed."""
        outermost = name == "batch"

        def timed(*arguments: Any, **options: Any) -> Any:
            self._inner.append(0.0)
            wall, begin = time.perf_counter(), time.thread_time()
            try:
                return function(*arguments, **options)
            finally:
                whole = time.thread_time() - begin
                self.busy[name] += whole - self._inner.pop()
                self._inner[-1] += whole
                if outermost:
                    self.waited += time.perf_counter() - wall - whole

        return timed


def main(path: Path, arguments: Sequence[str]) -> int:
    """Run it, then write the times: seconds by part, and `wait`."""
    clock = Clock()
    for name, places in PARTS.items():
        for module, place in places:
            owner: Any = import_module(module)
            *classes, attribute = place.split(".")
            for each in classes:
                owner = getattr(owner, each)
            setattr(owner, attribute, clock.part(name, getattr(owner, attribute)))
    result = run(arguments)
    path.write_bytes(msgspec.json.encode({**clock.busy, "wait": clock.waited}))
    return result


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
