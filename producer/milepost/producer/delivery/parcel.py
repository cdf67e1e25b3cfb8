"""One event between `publish` and its delivery report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from milepost.producer.delivery.receipt import Receipt
from milepost.schemas import CheckpointCreated
from milepost.schemas.codec import CheckedEvent, render
from milepost.schemas.wire import EncodedEvent

if TYPE_CHECKING:
    from milepost.producer.delivery.link import Link

OVERHEAD_BYTES = 2_048
"""What an event costs in memory beside its own bytes: the objects that hold them (1.4 KB were measured), and its
share of the containers."""


class Parcel(msgspec.Struct, eq=False, gc=False):
    """An event under way. It is its own delivery callback, so that no closure is made for it."""

    seq: int
    """Its number among all that this publisher took, from 1: also its `ce_publisherseq`."""
    receipt: Receipt
    size: int
    """What it counts for in the queue, bytes."""
    link: Link | None = None
    """The producer that has it, once it was handed over."""

    def record(self, source: str) -> EncodedEvent:
        """What goes to the log; `source` names the publisher."""
        raise NotImplementedError

    def __call__(self, error: Any, message: Any) -> None:
        link = self.link
        if link is not None:
            link.report(self, error, message)


class HeldParcel(Parcel, eq=False, gc=False, kw_only=True):
    """An event that waits in memory."""

    checked: CheckedEvent
    """Its digest and most of its headers are made when it is sent: that is half the cost of an event, off the hot path."""

    def record(self, source: str) -> EncodedEvent:
        return render(self.checked, source=source)


def size_of(checked: CheckedEvent) -> int:
    """The bytes that an event holds in memory, about."""
    event = checked.event
    size = OVERHEAD_BYTES + len(checked.key)
    if isinstance(event, CheckpointCreated):
        size += len(event.state) + len(event.checkpoint_id)
    for _, text in checked.extra:
        if text is not None:
            size += len(text)
    return size
