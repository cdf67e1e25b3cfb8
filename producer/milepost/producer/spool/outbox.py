"""An outbox whose events wait on disk: what `publish` took is in the log before it returns, and is sent from there.

So memory holds only what is being sent, the order is the log's, and a dead publisher's rest is read like one's own.
"""

from __future__ import annotations

import contextlib
import logging
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Final
from uuid import UUID
from weakref import WeakValueDictionary
from zlib import crc32

import msgspec

from milepost.producer.delivery.outbox import FORKED, Outbox
from milepost.producer.delivery.parcel import OVERHEAD_BYTES, HeldParcel, Parcel
from milepost.producer.delivery.receipt import Receipt
from milepost.producer.delivery.reporter import Pace
from milepost.producer.spool.format import HEAD_BYTES, About, Found, pack, unpack
from milepost.producer.spool.log import Log, SpoolFullError
from milepost.producer.spool.rest import Finder, Rest
from milepost.producer.spool.settings import Spool
from milepost.producer.spool.trail import Segment, Trail
from milepost.producer.stats import PublisherStats
from milepost.schemas import DeliveryFailed, Position, PublisherClosed
from milepost.schemas.codec import CheckedEvent, render
from milepost.schemas.wire import EncodedEvent

logger = logging.getLogger("milepost.producer")

SPOOL_FULL: Final = "spool_full"
SPOOL_FAILED: Final = "spool_failed"
SPOOL_DAMAGED: Final = "spool_damaged"
SPOOLED: Final = "spooled"
LOOK_SECONDS: Final = 2.0


class SpooledParcel(HeldParcel, eq=False, gc=False, kw_only=True):
    """An event read from a log."""

    trail: Trail
    place: int

    def record(self, source: str) -> EncodedEvent:  # noqa: ARG002 - it has its own publisher's
        return render(self.checked, source=self.trail.source)


class SpoolOutbox(Outbox):
    """Takes events into the log on disk; gives out first what dead publishers left in the folder, then its own."""

    kept = frozenset(
        {"_UNKNOWN_TOPIC", "UNKNOWN_TOPIC_OR_PART", "TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"}
    )

    def __init__(
        self,
        spool: Spool,
        topic: str,
        source: str,
        queue_bytes: int,
        on_failure: Callable[[DeliveryFailed], object] | None,
    ) -> None:
        super().__init__(queue_bytes, on_failure)
        self._spool: Final = spool
        self._log: Final = Log(spool, self.publisher_id, About(str(self.publisher_id), topic, source))
        self._finder: Final = Finder(spool.folder, topic)
        self._rests: Final[deque[Rest]] = deque()
        self._foreign_seqs: Final = count(-1, -1)  # numbers of others' events, apart from ours
        # who gave its receipt away does not pay for it while the event waits
        self._receipts: Final[WeakValueDictionary[int, Receipt]] = WeakValueDictionary()
        self._look: Final = Pace(LOOK_SECONDS)
        self._complaints: Final = Pace(5.0)
        self._last_read = 0
        # the numbers that are in the log and not read yet, as runs of first and last; and the newest with its end
        self._written: Final[deque[list[int]]] = deque()
        self._tip: tuple[Segment, int, int] | None = None
        self._hole_end: int | None = None  # where a stretch without numbers has ended that was read last
        self._recovered = 0

    # ---- for those who publish ----

    def put(self, checked: CheckedEvent, receipt: Receipt) -> bool:
        """Number the event and write it to the log, or, when the disk refuses, fail its receipt; whether it was taken.

        Raises `PublisherClosed`. A refused event keeps its number, so that the gap in the log shows the loss.
        """
        checked.extra.append(self._header)
        body = pack(checked)
        crc = crc32(body)
        size = OVERHEAD_BYTES + HEAD_BYTES + len(body)
        refusal: Exception | None = None
        segment: Segment | None = None
        with self._publishing:
            if self.closed:
                raise PublisherClosed("the publisher was closed; it takes no more events")
            self._numbered = seq = self._numbered + 1
            self._receipts[seq] = receipt  # before it can be read, sent and settled
            try:
                segment = self._log.append(seq, body, crc)
                self._taken_bytes += size
                self._note_written(seq, segment)
            except (OSError, SpoolFullError, ValueError) as error:  # the last: a name that the system does not take
                refusal = error
                self._refused[_reason(error)] += 1
        if segment is not None and self._spool.fsync:
            self._sync(segment)
        if refusal is not None:
            self._receipts.pop(seq, None)
            self._tell(receipt, _reason(refusal), f"{size} bytes could not be written: {refusal}")
        elif self._sealed:  # closed by a signal handler or another thread since the check above
            self.fail_rest()
        return refusal is None

    def _note_written(self, seq: int, segment: Segment) -> None:
        if self._written and self._written[-1][1] == seq - 1:
            self._written[-1][1] = seq
        else:
            self._written.append([seq, seq])
        self._tip = (segment, segment.size, seq)

    def _sync(self, segment: Segment) -> None:
        try:
            self._log.sync(segment)
        except OSError as error:  # it is written, and will be sent, but a power cut may take it
            logger.warning("publisher %s: spool: fsync failed: %s", self.publisher_id, error)

    # ---- for the thread that sends ----

    def next_to_send(self) -> Parcel | None:
        while not self.waiting and not self._sealed and self._read_ahead():
            pass  # what was read was damaged, all of it
        return super().next_to_send()

    def deliver(self, parcel: Parcel, position: Position) -> None:
        if parcel.seq > 0:
            super().deliver(parcel, position)
        elif self.sent.pop(parcel.seq, None) is not None:
            self._recovered += 1
        _settle(parcel)

    def fail(self, parcel: Parcel, reason: str, detail: str) -> None:
        if parcel.seq > 0:
            super().fail(parcel, reason, detail)
        elif self.sent.pop(parcel.seq, None) is not None:
            self._tell(parcel.receipt, reason, f"left by another publisher; {detail}")
        _settle(parcel)

    def tidy(self) -> None:
        """Note what is settled, give its space back, and look for the rest of publishers that have died."""
        if self._sealed:
            return
        self._fail_lost_tail()
        try:
            if self._look.due():
                self._rests.extend(self._finder.look(self.publisher_id.hex))
        except OSError as error:
            self._complain(error)
        for trail in (*self._rests, self._log):
            try:
                trail.tidy()
            except OSError as error:
                self._complain(error)
            if isinstance(trail, Rest) and not trail.pending and not trail.unread():
                self._drop(trail)

    def fail_rest(self) -> int:
        """Leave all that is under way to the next publisher of the folder; how many of ours those are."""
        self._fail_lost_tail()
        with self._sending:
            first, self._sealed = not self._sealed, True
            parcels = [*self.sent.values(), *self.waiting]
            self.sent.clear()
            self.waiting.clear()
        detail = f"the publisher was closed first; it stays in {self._spool.folder} for the next one of that folder"
        for parcel in parcels:
            if parcel.seq > 0:
                parcel.receipt.settle(DeliveryFailed(parcel.receipt.event_id, SPOOLED, detail))
        self._settle_waiting(SPOOLED, detail)
        left = self._numbered - self._delivered - self._failed.total() - self._refused.total()
        if first and left:
            logger.warning("publisher %s: %d events stay in the spool %s", self.publisher_id, left, self._spool.folder)
        return left

    def release(self) -> None:
        """Close the files, so that others may send what is in them."""
        for trail in (*self._rests, self._log):
            trail.close()
        self._rests.clear()

    # ---- for both ----

    def idle(self) -> bool:
        return super().idle() and (self._sealed or not self._unread())

    def settled_up_to(self, seq: int) -> bool:
        if not self._sealed and (
            any(rest.unread() for rest in self._rests) or (seq > self._last_read and self._log.unread())
        ):
            return False
        return super().settled_up_to(seq)

    def stats(self) -> PublisherStats:
        found = super().stats()
        if self._sealed:
            return msgspec.structs.replace(
                found, under_way=0, under_way_bytes=0, spooled=found.under_way, recovered=self._recovered
            )
        return msgspec.structs.replace(found, recovered=self._recovered)

    def disown(self) -> None:
        super().disown()
        detail = "it is its parent process's to deliver; what became of it is not known in this one"
        self._settle_waiting(FORKED, detail)
        for trail in (*self._rests, self._log):
            trail.disown()

    def _unread(self) -> bool:
        return self._log.unread() or any(rest.unread() for rest in self._rests)

    def _read_ahead(self) -> bool:
        """Read a chunk, of the oldest that there is; whether there was one."""
        for trail in (*self._rests, self._log):
            try:
                found = trail.read()
            except OSError as error:
                self._complain(error)
                if isinstance(trail, Rest):
                    self._drop(trail)  # it must not hold up all others; it is looked for again
                return False
            if found:
                for place, record in found:
                    self._take(trail, place, record)
                return True
        return False

    def _drop(self, rest: Rest) -> None:
        self._rests.remove(rest)
        rest.close()

    def _complain(self, error: OSError) -> None:
        if self._complaints.due():
            logger.warning("publisher %s: spool: %s; events wait", self.publisher_id, error)

    def _settle_waiting(self, reason: str, detail: str) -> None:
        """Settle the receipts of all that were not read yet."""
        with contextlib.suppress(KeyError):
            while True:
                _, receipt = self._receipts.popitem()
                receipt.settle(DeliveryFailed(receipt.event_id, reason, detail))

    def _take(self, trail: Trail, place: int, record: Found) -> None:
        ours = trail is self._log
        if ours:
            self._pass(record)
        receipt = self._receipts.pop(record.seq, None) if ours and record.seq is not None else None
        checked = _checked(record)
        if checked is None:
            trail.settle(place)
            if ours and record.seq is not None:
                receipt = receipt or Receipt(UUID(int=0), None)
                with self._sending:
                    self._failed[SPOOL_DAMAGED] += 1
                self._tell(receipt, SPOOL_DAMAGED, "the disk did not give back what was written to it")
            return
        parcel = SpooledParcel(
            record.seq if ours and record.seq is not None else next(self._foreign_seqs),
            receipt or Receipt(checked.event.event_id, None),
            OVERHEAD_BYTES + record.end - record.start,
            checked=checked,
            trail=trail,
            place=place,
        )
        self.waiting.append(parcel)

    def _pass(self, record: Found) -> None:
        """Note how far our log was read; what a damaged stretch before this record held is lost."""
        if record.seq is None:
            self._hole_end = record.end
            return
        if self._hole_end is not None:
            self._hole_end = None
            self._fail_lost(record.seq - 1)
        self._read_up_to(record.seq)

    def _read_up_to(self, seq: int) -> None:
        self._last_read = max(self._last_read, seq)
        while len(self._written) > 1 and self._written[0][1] <= self._last_read:
            self._written.popleft()

    def _fail_lost_tail(self) -> None:
        """When a damaged stretch is the last that there is, all written numbers up to there are lost."""
        tip = self._tip
        if self._hole_end is not None and tip is not None and tip[1] == self._hole_end and not self._log.unread():
            self._hole_end = None
            self._fail_lost(tip[2])
            self._read_up_to(tip[2])

    def _fail_lost(self, last: int) -> None:
        """Fail the events that were written, after the last that was read and up to this number."""
        for begin, end in tuple(self._written):
            for seq in range(max(begin, self._last_read + 1), min(end, last) + 1):
                receipt = self._receipts.pop(seq, None) or Receipt(UUID(int=0), None)
                with self._sending:
                    self._failed[SPOOL_DAMAGED] += 1
                self._tell(receipt, SPOOL_DAMAGED, "the disk did not give back what was written to it")


def _settle(parcel: Parcel) -> None:
    if isinstance(parcel, SpooledParcel):
        parcel.trail.settle(parcel.place)


def _reason(error: Exception) -> str:
    return SPOOL_FULL if isinstance(error, SpoolFullError) else SPOOL_FAILED


def _checked(record: Found) -> CheckedEvent | None:
    if record.body is None or record.seq is None:
        return None
    try:
        return unpack(record.body, record.seq)
    except (msgspec.MsgspecError, ValueError, OverflowError):  # whole, but written by something else
        return None
