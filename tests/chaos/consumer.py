"""`milepost consume` as the fault runs start it: the real command, in a hurry, and with a planted bug when it is told so.

Worker processes of `--processes` import this module too, so what it changes holds in them as well.
"""

from __future__ import annotations

import faulthandler
import os
import signal
from typing import Any, Final, cast

from milepost.consumer import fetcher, kafka, log, reader, watch
from milepost.consumer.cli import main
from tests.chaos import planted

SESSION_SECONDS: Final = 2.0
"""After how long without a sign of life the group takes a consumer's partitions away; ten seconds in the product."""
_HURRY: Final = {
    "session.timeout.ms": int(SESSION_SECONDS * 1_000),
    "heartbeat.interval.ms": 400,
}
_SOON: Final = {"reconnect.backoff.max.ms": 500}
_ANSWER_SECONDS: Final = 3.0
_WATCH_SECONDS: Final = 1.0


def hurry() -> None:
    """Shorten what is only waited for; and tell where each thread is when asked by a signal."""
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    cast(dict[str, Any], reader.SETTINGS).update(_HURRY | _SOON)
    cast(dict[str, Any], fetcher.SETTINGS).update(_SOON)
    for module in (kafka, log):
        _shorten(module, "ANSWER_SECONDS", _ANSWER_SECONDS)
    _shorten(watch, "_EVERY_SECONDS", _WATCH_SECONDS)


def _shorten(module: object, name: str, seconds: float) -> None:
    assert hasattr(module, name), f"expected {module} to have {name}"
    setattr(module, name, seconds)


# the second is the name in a worker process; who imports this for its numbers is left as it is
if __name__ in ("__main__", "__mp_main__"):
    hurry()
    planted.plant(os.environ.get(planted.VARIABLE, ""))

if __name__ == "__main__":
    main()
