"""`python -m benchmarks.timed_digests FILE COMMAND…`: milepost's command line, and to FILE the seconds that its digests took.

Digests are the chains of sessions and partitions and, with a key, the MACs of rows and heads; not the SHA-256 of states.

The time of looking at the clock is measured beside them and taken off.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from milepost.consumer import plan
from milepost.consumer.cli.commands import run
from milepost.consumer.integrity.signer import Signer


class Stopwatch:
    """Seconds inside of functions, and inside of none: what a look at the clock costs."""

    def __init__(self) -> None:
        self.inside = 0.0
        self.nothing = 0.0

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, timed."""
        clock = time.perf_counter

        def call(*arguments: Any) -> Any:
            begin = clock()
            result = function(*arguments)
            end = clock()
            _nothing(*arguments)
            self.nothing += clock() - end
            self.inside += end - begin
            return result

        return call


def _nothing(*_arguments: object) -> None:
    pass


def main(path: Path, arguments: Sequence[str]) -> int:
    """Run it, then write the seconds."""
    watch = Stopwatch()
    for owner, name in ((plan, "extend"), (plan, "extend_partition"), (Signer, "sign_row"), (Signer, "sign_head")):
        setattr(owner, name, watch.timed(getattr(owner, name)))
    result = run(arguments)
    path.write_bytes(msgspec.json.encode(watch.inside - watch.nothing))
    return result


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
