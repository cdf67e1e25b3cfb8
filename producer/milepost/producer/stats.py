"""What a publisher counts."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

import msgspec


class PublisherStats(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of one publisher in one process, since it began. `published` = delivered + failed + under way + spooled."""

    publisher_id: UUID
    """Stands in each event's `ce_publisherid`; a forked child has one of its own."""
    published: int
    """Events that `publish` took, those dropped at once among them; the last one's `ce_publisherseq`."""
    delivered: int
    """Events that all in-sync replicas of the log have."""
    failed: int
    """Events that did not reach the log; each was told to its receipt, the log file and `on_failure`."""
    failed_by_reason: Mapping[str, int]
    """The same by the reason in `DeliveryFailed`: `queue_full`, `closed`, or librdkafka's name of the error."""
    under_way: int
    """Events that wait or were sent, and are not confirmed."""
    under_way_bytes: int
    """What those hold of `queue_bytes`."""
    spooled: int = 0
    """Events that a closed publisher has left in its spool: the next publisher of the folder sends them."""
    recovered: int = 0
    """Events of dead publishers that this one has delivered from the spool, not counted in the others."""
    producers_rebuilt: int
    """How often librdkafka met an error it can't go on from, and was replaced without loss."""
