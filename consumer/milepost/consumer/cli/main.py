"""`milepost`: the commands, and what each kind of failure exits with.

0: done, or yes. 1: the answer is no. 2: wrong usage. 3: could not, with what to do.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Final

_EXTRA: Final = ("click", "cryptography", "prometheus_client", "psycopg", "psycopg_pool", "rich", "tenacity")


def main() -> None:
    """Run the command line."""
    if missing := [name for name in _EXTRA if find_spec(name) is None]:
        sys.stderr.write(
            f"milepost: the command line needs {', '.join(missing)}; install it with: pip install 'milepost[consumer]'\n"
        )
        sys.exit(3)
    # only now: these modules import what may be missing
    from milepost.consumer.cli.commands import run

    sys.exit(run(sys.argv[1:]))
