"""`CheckpointPublisher`: the verb of a runtime."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from milepost.producer.config import DEFAULT_QUEUE_BYTES, DEFAULT_SOURCE, Settings, Value
from milepost.producer.delivery import lifecycle
from milepost.producer.delivery.carrier import Carrier
from milepost.producer.delivery.courier import Courier
from milepost.producer.delivery.outbox import Outbox
from milepost.producer.delivery.receipt import Receipt
from milepost.producer.guard import finite
from milepost.producer.spool.outbox import SpoolOutbox
from milepost.producer.spool.settings import Spool, spool_of
from milepost.producer.stats import PublisherStats
from milepost.producer.tracing import trace_headers
from milepost.schemas import DEFAULT_TOPIC, CheckpointCreated, DeliveryFailed, Event, InvalidSetting
from milepost.schemas.codec import check

DEFAULT_CLOSE_SECONDS = 10.0


class CheckpointPublisher:
    """Publishes events and goes on at once, whether Kafka is up or not. Safe to use from any thread.

    Events of one session reach the log in the order of their `publish` calls. None is lost in silence: one that does
    not reach the log is counted, logged, told to `on_failure`, and its receipt raises `DeliveryFailed`.

    A thread of its own begins with the first event, and talks to Kafka. A forked child starts over, with a publisher id
    of its own; what the parent had published stays the parent's. An exit of the interpreter without `close` waits for
    deliveries for at most 5 seconds, and reports what was left.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        topic: str = DEFAULT_TOPIC,
        source: str = DEFAULT_SOURCE,
        spool: str | os.PathLike[str] | Spool | None = None,
        on_failure: Callable[[DeliveryFailed], object] | None = None,
        queue_bytes: int = DEFAULT_QUEUE_BYTES,
        kafka: Mapping[str, Value] | None = None,
    ) -> None:
        """Checks the settings; never touches the network. Raises `InvalidSetting`, naming what is at fault.

        `source` names the runtime, a URI reference. `queue_bytes` bounds all that waits for delivery; an event that
        finds no room fails at once. `on_failure` is called once for each event that failed, on a thread of the
        publisher. `kafka` are settings of librdkafka; those that would break a promise are refused. `spool` is a folder,
        or a `Spool`: an event whose `publish` has returned then outlives the process.
        """
        if on_failure is not None and not callable(on_failure):
            raise InvalidSetting(f"on_failure: expected a function, found {type(on_failure).__name__}")
        self._settings = Settings(
            bootstrap_servers, topic=topic, source=source, queue_bytes=queue_bytes, kafka={} if kafka is None else kafka
        )
        self._on_failure = on_failure
        self._spool = spool_of(spool)
        self._outbox, self._courier = self._begin()
        if self._spool is not None:
            self._courier.start()  # what dead publishers left in the folder does not wait for a first event
        lifecycle.publishers.add(self)

    def publish(self, event: Event) -> Receipt:
        """Take an event for delivery, and return at once.

        Raises `InvalidEvent` when the event breaks a rule of the wire, and `PublisherClosed`; nothing else.
        """
        checked = check(event)
        if traced := trace_headers():
            checked.extra.extend(traced)
        receipt = Receipt(event.event_id, event.checkpoint_id if isinstance(event, CheckpointCreated) else None)
        self._outbox.put(checked, receipt)
        courier = self._courier
        if courier.asleep:
            courier.wake()
        elif not courier.started:
            courier.start()
        return receipt

    def flush(self, timeout: float) -> int:
        """Wait until all events published before are delivered or have failed, for at most `timeout` seconds.

        Returns 0 when they are, else how many events are still under way. Blocks; in asyncio, await the receipts.
        """
        return 0 if self._courier.flush(finite(timeout)) else max(self.stats().under_way, 1)

    def close(self, timeout: float = DEFAULT_CLOSE_SECONDS) -> None:
        """Take no more events, deliver the rest for at most `timeout` seconds, and report what could not be.

        What is left fails as `closed`. `math.inf` waits for as long as it takes; None is a `TypeError`.
        May be called again, from any thread, and from a signal handler.
        """
        deadline = time.monotonic() + finite(timeout)
        self._outbox.close()
        self._courier.stop(deadline)
        self._courier.conclude(deadline)

    def stats(self) -> PublisherStats:
        """The counts of this publisher in this process, now."""
        return self._outbox.stats()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._outbox.closed else "open"
        return f"<CheckpointPublisher to {self._settings.topic} at {self._settings.servers}, {state}>"

    def _begin_again(self) -> None:
        """In a forked child: forget the parent's events and begin with a new publisher id."""
        was_closed = self._outbox.closed
        self._finalizer.detach()
        self._outbox, self._courier = self._begin()
        if was_closed:
            self._outbox.close()

    def _take_no_more(self) -> None:
        """At the interpreter's exit: what is published from now on has nobody to wait for it."""
        self._outbox.close()

    def _begin(self) -> tuple[Outbox, Carrier]:
        outbox = self._new_outbox()
        courier = self._carrier(outbox)
        self._finalizer = weakref.finalize(self, _abandon, outbox, courier)
        self._finalizer.atexit = False  # the exit has a handler that waits
        return outbox, courier

    def _new_outbox(self) -> Outbox:
        settings = self._settings
        if self._spool is None:
            return Outbox(settings.queue_bytes, self._on_failure)
        return SpoolOutbox(self._spool, settings.topic, settings.source, settings.queue_bytes, self._on_failure)

    def _carrier(self, outbox: Outbox) -> Carrier:
        return Courier(self._settings, outbox)


def _abandon(outbox: Outbox, courier: Carrier) -> None:
    """The publisher was collected: deliver what it took, however long it takes, and end."""
    outbox.close()
    courier.stop(None)
