"""Sending what is left in a spool's folder, without a publisher of one's own."""

from __future__ import annotations

import time
from pathlib import Path

from milepost.producer.config import DEFAULT_QUEUE_BYTES, DEFAULT_SOURCE, Settings
from milepost.producer.delivery.courier import Courier
from milepost.producer.spool.outbox import SpoolOutbox
from milepost.producer.spool.settings import Spool


def drain(folder: Path, servers: str, topic: str, timeout: float) -> int:
    """Send what dead publishers of the topic left in the folder, for at most `timeout` seconds; how many events.

    What a living publisher has there is its own to send. Blocks.
    """
    settings = Settings(servers, topic=topic, source=DEFAULT_SOURCE, queue_bytes=DEFAULT_QUEUE_BYTES, kafka={})
    outbox = SpoolOutbox(Spool(folder), topic, DEFAULT_SOURCE, DEFAULT_QUEUE_BYTES, None)
    outbox.tidy()
    courier = Courier(settings, outbox)
    outbox.close()
    deadline = time.monotonic() + timeout
    courier.stop(deadline)
    if not outbox.idle():
        courier.start()
    courier.conclude(deadline)
    return outbox.stats().recovered
