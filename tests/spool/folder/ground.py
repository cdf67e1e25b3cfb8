"""Publishers over the twin in memory, with a spool in a real folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from milepost.producer import Receipt
from milepost.producer.testing import MemoryPublisher
from milepost.schemas import DeliveryFailed
from tests.producer.helpers import created

Make = Callable[..., MemoryPublisher]


def leave(folder: Path, count: int, *, first: int = 0, size: int = 0) -> MemoryPublisher:
    """A publisher that ends with its log away, and so leaves all events in the folder."""
    publisher = MemoryPublisher(spool=folder)
    publisher.stall()
    for number in range(first, first + count):
        publisher.publish(created(number, size=size))
    publisher.close(0)
    return publisher


def segments(folder: Path) -> list[Path]:
    """The files that hold events, oldest first."""
    return sorted(folder.glob("*.spool"))


def reason(receipt: Receipt) -> str | None:
    """Why an event failed; None when it did not."""
    try:
        receipt.result(0)
    except DeliveryFailed as error:
        return error.reason
    return None
