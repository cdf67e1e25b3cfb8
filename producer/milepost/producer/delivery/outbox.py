"""Everything of a publisher that waits: numbered, bounded, counted, in order.

There are two locks, each held for a few assignments, never over a call that may wait: one among those who publish, and
one on the side that sends. Neither side takes the other's, since a signal handler may close the publisher in the middle
of a `publish` of its own thread: the sending thread must then be able to finish. For the same reason both are reentrant.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable
from typing import Final

from milepost.producer.delivery.parcel import HeldParcel, Parcel, size_of
from milepost.producer.delivery.receipt import Receipt
from milepost.producer.delivery.reporter import Reporter
from milepost.producer.stats import PublisherStats
from milepost.schemas import DeliveryFailed, Position, PublisherClosed
from milepost.schemas.codec import CheckedEvent
from milepost.schemas.ids import new_event_id

QUEUE_FULL: Final = "queue_full"
CLOSED: Final = "closed"
FORKED: Final = "forked"


class Outbox:
    """Takes events from any thread; gives them out, in the order of their numbers, to the one thread that sends.

    `on_failure` hears of each event that failed, on the reporter's thread.
    """

    kept: frozenset[str] = frozenset()
    """Names of refusals after which an event is tried again, since somebody may mend what caused them."""

    def __init__(self, queue_bytes: int, on_failure: Callable[[DeliveryFailed], object] | None) -> None:
        self.publisher_id: Final = new_event_id()
        self.reporter: Final = Reporter(str(self.publisher_id), on_failure)
        self.waiting: Final[deque[Parcel]] = deque()
        """Taken, and not handed over yet."""
        self.sent: Final[dict[int, Parcel]] = {}
        """Handed over and not reported yet, by number, in order."""
        self.closed = False
        self.rebuilt = 0
        self._header: Final = ("ce_publisherid", str(self.publisher_id))
        self._queue_bytes: Final = queue_bytes
        self._sealed = False
        self._publishing: Final = threading.RLock()
        self._numbered = 0
        self._refused: Final[Counter[str]] = Counter()
        self._taken_bytes = 0
        self._sending: Final = threading.RLock()
        self._failed: Final[Counter[str]] = Counter()
        self._failed_bytes = 0
        self._delivered = 0  # these two are written by the sending thread alone, so without a lock
        self._delivered_bytes = 0

    # ---- for those who publish ----

    def put(self, checked: CheckedEvent, receipt: Receipt) -> bool:
        """Number the event and take it, or, when the queue is full, fail its receipt; whether it was taken.

        Raises `PublisherClosed`. A refused event keeps its number, so that the gap in the log shows the loss.
        """
        size = size_of(checked)
        headers = checked.extra
        headers.append(self._header)
        with self._publishing:
            if self.closed:
                raise PublisherClosed("the publisher was closed; it takes no more events")
            self._numbered = seq = self._numbered + 1
            if taken := self._taken_bytes + size - self._delivered_bytes - self._failed_bytes <= self._queue_bytes:
                headers.append(("ce_publisherseq", str(seq)))
                self._taken_bytes += size
                self.waiting.append(HeldParcel(seq, receipt, size, checked=checked))
            else:
                self._refused[QUEUE_FULL] += 1
        if not taken:
            detail = f"{size} bytes more would pass the {self._queue_bytes} that may wait (queue_bytes)"
            self._tell(receipt, QUEUE_FULL, detail)
        elif self._sealed:  # closed by a signal handler or another thread since the check above
            self.fail_rest()
        return taken

    # ---- for the thread that sends ----

    def next_to_send(self) -> Parcel | None:
        """Move the oldest waiting event among the sent ones."""
        with self._sending:
            if not self.waiting:
                return None
            parcel = self.waiting.popleft()
            self.sent[parcel.seq] = parcel
            return parcel

    def put_back(self, parcel: Parcel) -> None:
        """Undo `next_to_send`."""
        with self._sending:
            if self.sent.pop(parcel.seq, None) is not None:
                self.waiting.appendleft(parcel)

    def deliver(self, parcel: Parcel, position: Position) -> None:
        """The log has it."""
        if self.sent.pop(parcel.seq, None) is not None:
            self._delivered += 1
            self._delivered_bytes += parcel.size
            parcel.receipt.settle(position)

    def fail(self, parcel: Parcel, reason: str, detail: str) -> None:
        """The log will not have it."""
        if self.sent.pop(parcel.seq, None) is not None:
            self._fail(parcel, reason, detail)

    def fail_rest(self) -> int:
        """Fail all that is under way as `closed`, and whatever should still come; how many those were."""
        with self._sending:
            self._sealed = True
            sent = list(self.sent.values())
            waiting = list(self.waiting)
            self.sent.clear()
            self.waiting.clear()
        for parcel in sent:
            self._fail(parcel, CLOSED, "the publisher was closed before the log confirmed it; the log may have it")
        for parcel in waiting:
            self._fail(parcel, CLOSED, "the publisher was closed before it could be sent")
        return len(sent) + len(waiting)

    def tidy(self) -> None:
        """Do what is due between two rounds of sending. Never raises."""

    def release(self) -> None:
        """Nothing more will be sent. May be called again."""

    # ---- for both ----

    def close(self) -> None:
        """Take no more events."""
        with self._publishing:
            self.closed = True

    def idle(self) -> bool:
        """Whether nothing is under way."""
        return not self.waiting and not self.sent

    def last(self) -> int:
        """The number of the newest event."""
        return self._numbered

    def settled_up_to(self, seq: int) -> bool:
        """Whether all events up to this number were delivered or have failed. For the sending thread."""
        oldest = next(iter(self.sent), None)
        if oldest is None:
            try:
                oldest = self.waiting[0].seq
            except IndexError:
                return True
        return oldest > seq

    def stats(self) -> PublisherStats:
        """The counts, as one."""
        delivered, delivered_bytes = self._delivered, self._delivered_bytes
        with self._sending:
            by_reason, failed_bytes = dict(self._failed), self._failed_bytes
        with self._publishing:
            by_reason.update(self._refused)
            failed = sum(by_reason.values())
            return PublisherStats(
                publisher_id=self.publisher_id,
                published=self._numbered,
                delivered=delivered,
                failed=failed,
                failed_by_reason=by_reason,
                under_way=self._numbered - delivered - failed,
                under_way_bytes=self._taken_bytes - delivered_bytes - failed_bytes,
                producers_rebuilt=self.rebuilt,
            )

    def disown(self) -> None:
        """In a forked child: the parent delivers these events, and their receipts here can't learn of it."""
        for parcel in (*self.sent.values(), *self.waiting):
            detail = "it is its parent process's to deliver; what became of it is not known in this one"
            parcel.receipt.settle(DeliveryFailed(parcel.receipt.event_id, FORKED, detail))

    def _fail(self, parcel: Parcel, reason: str, detail: str) -> None:
        with self._sending:
            self._failed[reason] += 1
            self._failed_bytes += parcel.size
        self._tell(parcel.receipt, reason, detail)

    def _tell(self, receipt: Receipt, reason: str, detail: str) -> None:
        failure = DeliveryFailed(receipt.event_id, reason, detail)
        receipt.settle(failure)
        self.reporter.failed(failure)
