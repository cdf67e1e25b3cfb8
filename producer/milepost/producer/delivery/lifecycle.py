"""What happens to publishers at the ends that nobody calls: the interpreter's exit, and a fork."""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import time
from typing import TYPE_CHECKING, Final, Protocol
from weakref import WeakSet

from milepost.producer.delivery import receipt

if TYPE_CHECKING:
    from milepost.producer.delivery.courier import Courier

EXIT_SECONDS: Final = 4.5
"""How long an exit without `close` waits for deliveries."""
HANGING_SECONDS: Final = 0.5
"""How much longer for what hangs: of all publishers together."""


class Publisher(Protocol):
    """A publisher, as its process's ends see it."""

    def _begin_again(self) -> None: ...

    def _take_no_more(self) -> None: ...


publishers: Final[WeakSet[Publisher]] = WeakSet()
running: Final[set[Courier]] = set()
"""Couriers with a thread: also those whose publisher was collected and that still deliver."""


def began(courier: Courier) -> None:
    """A courier is about to start its thread: remember to end it when the process does."""
    process = sys.modules.get("multiprocessing.process")
    if not running and process is not None and process.parent_process() is not None:
        # a worker of multiprocessing leaves without the interpreter's exit; this is what it runs instead
        sys.modules["multiprocessing.util"].Finalize(None, _at_exit, exitpriority=0)
    running.add(courier)


def _at_exit() -> None:
    deadline = time.monotonic() + EXIT_SECONDS
    for publisher in list(publishers):
        publisher._take_no_more()  # noqa: SLF001
    couriers = list(running)
    for courier in couriers:
        courier.stop(deadline)
    for courier in couriers:
        courier.conclude(deadline, deadline + HANGING_SECONDS)


def _in_child() -> None:
    receipt.renew_lock()
    for courier in running:
        if courier.link is not None and courier.link.producer is not None:
            # its threads are the parent's: destroying it here would wait for them for ever
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(courier.link.producer))
        courier.outbox.disown()
    running.clear()
    for publisher in list(publishers):
        publisher._begin_again()  # noqa: SLF001


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_in_child)
