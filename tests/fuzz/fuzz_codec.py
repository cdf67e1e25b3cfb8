"""Fuzz the codec for a while: `python -m tests.fuzz.fuzz_codec [SECONDS [SEED]]`.

Goes from seed to seed, a few thousand records each, and prints what became of them; a failure prints the record and the
seed, which makes the same records again.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.fuzz.checks import check
from tests.fuzz.records import Record, records

EXAMPLES = 2_000
_SETTINGS = settings(
    max_examples=EXAMPLES,
    deadline=2_000,  # milliseconds: a record of a few hundred bytes that takes this long is a finding
    database=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)


def run(number: int) -> Counter[str]:
    """Check the records of one seed."""
    counts: Counter[str] = Counter()

    @seed(number)
    @_SETTINGS
    @given(records)
    def one(record: Record) -> None:
        counts[check(record)] += 1

    one()
    return counts


def main(seconds: float, first: int) -> None:
    """Run seeds, from the first one on, until the time is over."""
    end = time.monotonic() + seconds
    number, total = first, Counter[str]()
    while time.monotonic() < end:
        try:
            total += run(number)
        except BaseException:
            print(f"seed {number}", file=sys.stderr)
            raise
        number += 1
    report = {
        "first_seed": first,
        "last_seed": number - 1,
        "records": total.total(),
        "results": dict(total.most_common()),
    }
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 600.0, int(sys.argv[2]) if len(sys.argv) > 2 else 1)
