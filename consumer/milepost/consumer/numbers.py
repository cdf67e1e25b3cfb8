"""Which publisher made a record, and its how-manieth it is: of events, and of records in the quarantine as far as they say.

A publisher's numbers grow within a partition, since it sends in their order. So a record whose number is not above the
highest one seen there was sent again, and is not counted once more, whether it was applied, stale, in conflict, in the
quarantine, or an event published twice, which has two numbers.
"""

from __future__ import annotations

from typing import NamedTuple

from milepost.consumer.records import LogRecord
from milepost.schemas import InvalidRecord
from milepost.schemas.codec.attributes import integer, text, uuid_bytes


class Numbered(NamedTuple):
    """Who made a record."""

    publisher_id: bytes
    """A UUID's 16 bytes."""
    seq: int
    source: str
    """Empty where a record in the quarantine does not name one."""


def numbered(record: LogRecord) -> Numbered | None:
    """The number of a record; None where it has none that can be read."""
    event = record.event
    if event is None:
        return number_in_headers(record)
    if event.publisher_id is None or event.publisher_seq is None:
        return None
    return Numbered(event.publisher_id, event.publisher_seq, event.source)


def number_in_headers(record: LogRecord) -> Numbered | None:
    """The number that a record's headers give, even when it is no valid event."""
    try:
        publisher, seq = _only(record, "ce_publisherid"), _only(record, "ce_publisherseq")
        if publisher is None or seq is None:
            return None
        number = Numbered(uuid_bytes("ce_publisherid", publisher), integer("ce_publisherseq", seq, 1), "")
    except InvalidRecord:
        return None
    try:
        return number._replace(source=text("ce_source", _only(record, "ce_source") or b""))
    except InvalidRecord:
        return number


def _only(record: LogRecord, name: str) -> bytes | None:
    found = [value for each, value in record.headers if each == name and value is not None]
    return found[0] if len(found) == 1 else None
