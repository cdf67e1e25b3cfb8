"""One librdkafka producer, for as long as it works. Used by the courier's thread alone."""

from __future__ import annotations

import contextlib
import logging
import time
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from milepost.producer.config import Settings
from milepost.producer.delivery.outbox import Outbox
from milepost.producer.delivery.parcel import Parcel
from milepost.producer.delivery.reporter import Pace
from milepost.schemas import Position

logger = logging.getLogger("milepost.producer")

MAX_BATCH: Final = 1_000
ERROR_LINE_SECONDS: Final = 5.0
RETIRING_SECONDS: Final = 1.0

# what librdkafka gives to events that it has dropped because it can't go on: they go to the next producer
_KEPT: Final = frozenset(
    {
        "_FATAL",
        "_PURGE_QUEUE",
        "_PURGE_INFLIGHT",
        "_DESTROY",
        "_STATE",
        "_FENCED",
        "OUT_OF_ORDER_SEQUENCE_NUMBER",
        "INVALID_PRODUCER_EPOCH",
        "INVALID_PRODUCER_ID_MAPPING",
        "UNKNOWN_PRODUCER_ID",
        "PRODUCER_FENCED",
    }
)


class Link:
    """A producer that hands over what waits in the outbox and hears what became of it.

    It is `broken` once librdkafka says that it can't go on (KIP-98: a gap or a fence in the producer's sequence). Then
    what it had not delivered is still in the outbox, in order, for the next link.
    """

    def __init__(self, settings: Settings, outbox: Outbox) -> None:
        """May block: for files of certificates, for a first OAuth token. Raises `KafkaException`."""
        self.broken: str | None = None
        self.held_bytes = 0
        self.heard = time.monotonic()
        """When it last had a delivery report."""
        self._outbox: Final = outbox
        self._source: Final = settings.source
        self._topic: Final = settings.topic
        self._window: Final = settings.window_bytes
        self.born: Final = time.monotonic()
        self._pace: Final = Pace(ERROR_LINE_SECONDS)
        self._on_error: Final = settings.on_error
        self.producer: Producer | None = Producer(settings.for_producer(self._error))

    def resend(self) -> None:
        """Hand over what the link before this one could not deliver, in order."""
        for parcel in list(self._outbox.sent.values()):
            if not self._produce(parcel):
                break

    def hand_over(self) -> None:
        """Hand over what waits, as far as the window goes: librdkafka has a copy of all that it holds.

        The window takes one event more than it has room for, so an event of any size passes.
        """
        for _ in range(MAX_BATCH):
            if self.broken is not None or self.held_bytes >= self._window:
                return
            parcel = self._outbox.next_to_send()
            if parcel is None:
                return
            if not self._produce(parcel):
                return

    def serve(self, seconds: float, *, hurry: bool = False) -> None:
        """Run the delivery reports and callbacks that are due, waiting for the first; in a hurry, without linger."""
        if self.producer is None:
            return
        try:
            if hurry:
                self.producer.flush(seconds)
            else:
                self.producer.poll(seconds)
        except KafkaException as error:
            self._failed(error.args[0])

    def report(self, parcel: Parcel, error: KafkaError | None, message: Any) -> None:
        """What became of an event: librdkafka's delivery report."""
        self.held_bytes -= parcel.size
        self.heard = time.monotonic()
        if error is None:
            self._outbox.deliver(parcel, Position(self._topic, message.partition(), message.offset()))
        elif self._is_kept(error):
            self.broken = self.broken or error.str()
        else:
            self._outbox.fail(parcel, error.name(), error.str())

    def retire(self) -> None:
        """Give the producer up; what it has delivered is heard first. May block while it resolves a name."""
        producer = self.producer
        if producer is None:
            return
        self.broken = self.broken or "retired"
        with contextlib.suppress(KafkaException):
            producer.purge()
        limit = time.monotonic() + RETIRING_SECONDS
        while len(producer) and time.monotonic() < limit:
            self.serve(0.05)
        self.producer = None

    def _produce(self, parcel: Parcel) -> bool:
        """Whether to go on with the next."""
        record = parcel.record(self._source)
        parcel.link = self
        try:
            self.producer.produce(  # type: ignore[union-attr]
                self._topic, record.value, record.key, on_delivery=parcel, headers=record.headers
            )
        except BufferError:
            self._outbox.put_back(parcel)
            return False
        except KafkaException as error:
            self._refused(parcel, error.args[0])
            return self.broken is None
        self.held_bytes += parcel.size
        return True

    def _is_kept(self, error: KafkaError) -> bool:
        return error.fatal() or error.name() in _KEPT or error.name() in self._outbox.kept

    def _refused(self, parcel: Parcel, error: KafkaError) -> None:
        if self._is_kept(error):
            self._failed(error)
        else:
            self._outbox.fail(parcel, error.name(), error.str())

    def _failed(self, error: KafkaError) -> None:
        if self._is_kept(error):
            self.broken = self.broken or error.str()
        else:
            logger.warning("publisher %s: %s", self._outbox.publisher_id, error.str())

    def _error(self, error: KafkaError) -> None:
        """librdkafka tries again by itself: this is for the log, and for who asked for it."""
        if self._pace.due():
            logger.warning("publisher %s: kafka: %s; events wait", self._outbox.publisher_id, error.str())
        if self._on_error is not None:
            self._on_error(error)
