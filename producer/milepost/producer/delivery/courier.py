"""The one thread that talks to Kafka, so that `publish` never does."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from queue import Empty, SimpleQueue
from typing import Final

from confluent_kafka import KafkaException

from milepost.producer.config import Settings
from milepost.producer.delivery import lifecycle
from milepost.producer.delivery.link import Link
from milepost.producer.delivery.outbox import Outbox
from milepost.producer.delivery.reporter import Pace
from milepost.producer.guard import log_exception

logger = logging.getLogger("milepost.producer")

BUSY_SECONDS: Final = 0.002
"""How long it waits for delivery reports before it looks for new events."""
SILENT_SECONDS: Final = 0.05
"""The same when Kafka has said nothing for a second: then it is the log that is waited for."""
IDLE_SECONDS: Final = 1.0
"""How often an idle courier runs librdkafka's callbacks: logs, statistics, OAuth refresh."""
GRACE_SECONDS: Final = 0.5
FIRST_REBUILD_SECONDS: Final = 0.05
LAST_REBUILD_SECONDS: Final = 5.0


class Courier:
    """Carries events from the outbox to Kafka, in order, until it is stopped.

    It owns the link: makes it with the first event, and a new one when librdkafka can't go on with the old.
    """

    def __init__(self, settings: Settings, outbox: Outbox) -> None:
        self.outbox: Final = outbox
        self.asleep = False
        self.started = False
        self.link: Link | None = None
        self.thread: threading.Thread | None = None
        self.finished: Final = threading.Event()
        self._settings: Final = settings
        self._reporter: Final = outbox.reporter
        self._wake: Final[SimpleQueue[None]] = SimpleQueue()  # reentrant: a finalizer may wake us anywhere
        self._flushing: Final[deque[tuple[int, threading.Event]]] = deque()
        self._stopping = False
        self._deadline: float | None = None
        self._patience = FIRST_REBUILD_SECONDS
        self._starting: Final = threading.RLock()
        self._complaints: Final = Pace(1.0)

    # ---- for other threads ----

    def start(self) -> None:
        """Begin, unless it has begun. An interpreter that gives no more threads is logged; the events wait."""
        with self._starting:
            if self.thread is not None:
                return
            thread = threading.Thread(target=self._run, name="milepost-courier", daemon=True)
            lifecycle.began(self)
            try:
                thread.start()
            except RuntimeError as error:
                lifecycle.running.discard(self)
                if self._complaints.due():
                    logger.warning("publisher %s: %s; events wait", self.outbox.publisher_id, error)
                return
            self.thread, self.started = thread, True

    def wake(self) -> None:
        """Look at once. Reentrant, never blocks."""
        self._wake.put(None)

    def flush(self, timeout: float) -> bool:
        """Wait until all that was taken before is settled; whether it was within `timeout` seconds."""
        if self.outbox.idle() or self.thread is None or self.thread is threading.current_thread():
            return self.outbox.idle()
        event = threading.Event()
        self._flushing.append((self.outbox.last(), event))
        self.wake()
        return event.wait(timeout) or self.outbox.idle()

    def stop(self, deadline: float | None) -> None:
        """End when all is delivered, at `deadline` (monotonic) at the latest; what is left then has failed."""
        self._deadline = deadline
        self._stopping = True
        self.wake()

    def conclude(self, deadline: float, limit: float | None = None) -> None:
        """Wait for the end that `stop` has asked for, and a little longer; all is settled and reported then.

        `limit` (monotonic) bounds that little, for several that end together.
        """

        def left(until: float, grace: float) -> float:
            now = time.monotonic()
            wait = max(until - now, 0.0) + grace
            return wait if limit is None else max(min(wait, limit - now), 0.0)

        if self.thread is not threading.current_thread():
            if self.thread is None or not self.finished.wait(left(deadline, GRACE_SECONDS)):
                self.outbox.fail_rest()  # it hangs in a call of librdkafka
            if self.thread is None:
                self.outbox.release()
            self._reporter.finish()
            self._reporter.join(left(deadline, GRACE_SECONDS))
            if self.thread is not None and self.finished.is_set():
                self.thread.join(left(0.0, GRACE_SECONDS))

    # ---- its own thread ----

    def _run(self) -> None:
        try:
            while not self._over():
                try:
                    self._round()
                except BaseException:  # noqa: BLE001 - the events must go on, whatever broke one round
                    if self._complaints.due():
                        log_exception(logger, "publisher %s: a round of the courier failed", self.outbox.publisher_id)
                    self._wait_for_better()
        finally:
            try:
                self._end()
            finally:
                lifecycle.running.discard(self)

    def _over(self) -> bool:
        if not self._stopping:
            return False
        return self.outbox.idle() or (self._deadline is not None and time.monotonic() >= self._deadline)

    def _round(self) -> None:
        self.outbox.tidy()
        if self.outbox.idle():
            self._release_flushes()
            self._sleep(IDLE_SECONDS)
        if self.link is None and not self.outbox.idle():
            self._connect()
        link = self.link
        if link is None:
            return
        link.hand_over()
        link.serve(self._pause(link), hurry=bool(self._flushing) or self._stopping)
        if link.broken is not None:
            self._replace(link)
        if self._flushing:
            self._release_flushes()

    def _pause(self, link: Link) -> float:
        if self.outbox.idle():
            return 0.0
        return BUSY_SECONDS if time.monotonic() - link.heard < 1.0 else SILENT_SECONDS

    def _sleep(self, seconds: float) -> None:
        self.asleep = True
        try:
            # who puts an event looks at `asleep` after; so this looks for events after setting it
            if self.outbox.idle() and not self._stopping and not self._flushing:
                self._wake.get(timeout=seconds)
        except Empty:
            pass
        finally:
            self.asleep = False
            while not self._wake.empty():
                self._wake.get_nowait()

    def _connect(self) -> None:
        try:
            self.link = Link(self._settings, self.outbox)
        except KafkaException as error:
            if self._complaints.due():
                logger.warning("publisher %s: %s; events wait", self.outbox.publisher_id, self._settings.redact(error))
            self._wait_for_better()
            return
        self.link.resend()

    def _replace(self, link: Link) -> None:
        logger.warning(
            "publisher %s: librdkafka can't go on (%s); a new producer takes over",
            self.outbox.publisher_id,
            link.broken,
        )
        link.retire()
        self.link = None
        self.outbox.rebuilt += 1
        self._patience = (
            FIRST_REBUILD_SECONDS if time.monotonic() - link.born > LAST_REBUILD_SECONDS else self._patience
        )
        self._wait_for_better()

    def _wait_for_better(self) -> None:
        """Longer each time, so that an error that comes again at once does not keep a processor busy."""
        limit = time.monotonic() + self._patience
        self._patience = min(self._patience * 2, LAST_REBUILD_SECONDS)
        while not self._over() and (left := limit - time.monotonic()) > 0:
            try:
                self._wake.get(timeout=left)
            except Empty:
                return

    def _release_flushes(self) -> None:
        for _ in range(len(self._flushing)):
            seq, event = self._flushing.popleft()
            if self.outbox.settled_up_to(seq):
                event.set()
            else:
                self._flushing.append((seq, event))

    def _end(self) -> None:
        link = self.link
        try:
            if link is not None and self.outbox.sent:
                link.serve(0.0)  # what the log has confirmed by now is delivered
            self.outbox.fail_rest()
        finally:
            self._release_flushes()
            self._reporter.finish()
            self.finished.set()
            if link is not None:
                link.retire()
            self.link = None
            self.outbox.release()
