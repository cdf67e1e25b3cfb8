"""`python -m benchmarks.variants LEFT_OUT COMMAND…`: milepost's command line with a part of it left out, to see what it costs.

`chains`: no session chain and no partition digest. `nothing`: as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from milepost.consumer import plan
from milepost.consumer.chain import START
from milepost.consumer.cli.commands import run


def main(left_out: str, arguments: Sequence[str]) -> int:
    """Run it."""
    if left_out == "chains":
        for name in ("extend", "extend_partition"):
            setattr(plan, name, lambda *_: START)
    return run(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
