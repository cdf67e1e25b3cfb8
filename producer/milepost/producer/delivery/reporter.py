"""Tells of failures: to the callback once each, to the log in at most one line a second."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final

from milepost.producer.guard import log_exception
from milepost.schemas import DeliveryFailed

logger = logging.getLogger("milepost.producer")

LINE_SECONDS: Final = 1.0
MAX_UNTOLD: Final = 65_536
"""How many failures may wait for a callback that is slower than they come, about 30 MB. Further ones are in the counts
and the log alone."""


class Pace:
    """Lets something happen once in so many seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds: Final = seconds
        self._next = 0.0

    def due(self) -> bool:
        """Whether it may happen now; if so, the time begins again."""
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + self._seconds
        return True

    def remaining(self) -> float:
        """Seconds until it may happen again."""
        return max(self._next - time.monotonic(), 0.0)


class Reporter:
    """Runs `on_failure` and the log on a thread of its own, which begins with the first failure."""

    def __init__(self, publisher: str, on_failure: Callable[[DeliveryFailed], object] | None) -> None:
        self._publisher: Final = publisher
        self._on_failure: Final = on_failure
        self._queue: Final[SimpleQueue[DeliveryFailed | None]] = SimpleQueue()
        self._pace: Final = Pace(LINE_SECONDS)
        self._raised: Final = Pace(LINE_SECONDS)
        self._lock: Final = threading.RLock()  # for beginning and end of the thread
        self._thread: threading.Thread | None = None
        self._finishing = False
        self._untold = 0  # for the log alone, so without a lock; the exact count is in the outbox
        self._unlogged: Counter[str] = Counter()
        self._last: DeliveryFailed | None = None

    def failed(self, failure: DeliveryFailed) -> None:
        """Take note of a failure. Returns at once, from any thread, also in a signal handler."""
        if self._queue.qsize() < MAX_UNTOLD:
            self._queue.put(failure)
        else:
            self._untold += 1
        if self._thread is None:
            self._start()

    def finish(self) -> None:
        """Let the thread end after what it was given. Returns at once; may be called again."""
        self._finishing = True
        self._queue.put(None)

    def join(self, timeout: float) -> None:
        """Wait until the thread has ended, for at most `timeout` seconds."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)

    def _start(self) -> None:
        with self._lock:
            if self._thread is not None:
                return
            thread = threading.Thread(target=self._run, name="milepost-failures", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # no more threads, or the interpreter is ending: then in this one
                self._drain()
                return
            self._thread = thread

    def _run(self) -> None:
        while True:
            try:
                if self._over():
                    return
                self._round()
            except BaseException:  # noqa: BLE001 - whatever it is, the failures that come later must be told
                log_exception(logger, "publisher %s: telling of failures failed", self._publisher)

    def _round(self) -> None:
        try:
            failure = self._queue.get(timeout=self._pace.remaining() if self._unlogged else None)
        except Empty:
            failure = None
        if failure is not None:
            self._tell(failure)
        if self._unlogged and self._pace.due():
            self._log()

    def _over(self) -> bool:
        if not self._finishing or not self._queue.empty():
            return False
        self._log()
        with self._lock:
            if self._queue.empty():
                self._thread = None  # a failure that comes later finds none, and starts another
                return True
        return False

    def _drain(self) -> None:
        while not self._queue.empty():
            if (failure := self._queue.get()) is not None:
                self._tell(failure)
        self._log()

    def _tell(self, failure: DeliveryFailed) -> None:
        self._unlogged[failure.reason] += 1
        self._last = failure
        if self._on_failure is None:
            return
        try:
            self._on_failure(failure)
        except BaseException:  # noqa: BLE001 - whatever it is, SystemExit too, it is the callback's own
            if self._raised.due():
                log_exception(logger, "publisher %s: on_failure raised; the event: %s", self._publisher, failure)

    def _log(self) -> None:
        counts, self._unlogged = self._unlogged, Counter()
        untold, self._untold = self._untold, 0
        if not counts:
            return
        reasons = ", ".join(f"{count} {reason}" for reason, count in counts.most_common())
        more = f", and {untold} that on_failure was too slow to hear of" if untold else ""
        try:
            logger.error(
                "publisher %s: %d not delivered (%s)%s; the last: %s",
                self._publisher,
                counts.total(),
                reasons,
                more,
                self._last,
            )
        except BaseException:  # noqa: BLE001 - a filter or a handler of the application
            log_exception(logger, "publisher %s: the log raised", self._publisher)
