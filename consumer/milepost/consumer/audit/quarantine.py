"""Rows of the quarantine: each a whole record, that is no event for the reason it gives."""

from __future__ import annotations

from binascii import Error as NoBase64

import msgspec

from milepost.consumer.audit.findings import Findings, Key
from milepost.consumer.audit.rows import Row
from milepost.consumer.headers import headers_document, headers_of, is_readable
from milepost.consumer.integrity.facts import moment
from milepost.consumer.numbers import Numbered, number_in_headers
from milepost.consumer.records import LogRecord, from_parts, unreadable
from milepost.schemas import Reason


class Quarantined(msgspec.Struct, gc=False):
    """A row of the quarantine."""

    partition: int
    offset: int
    log_time: int
    topic: str
    status: str
    reason: str
    key: bytes | None
    value: bytes | None
    headers: bytes
    """As the JSON document that is stored."""

    @property
    def name(self) -> Key:
        """What names the row."""
        return {"partition": str(self.partition), "offset": str(self.offset)}

    @property
    def is_retried(self) -> bool:
        """Whether it is an event of the history by now."""
        return self.status == "retried"

    def decoded(self, partitions: int) -> LogRecord | None:
        """The record as this version reads it; None when its headers are no headers."""
        try:
            headers = headers_of(self.headers)
        except (msgspec.DecodeError, NoBase64, ValueError, TypeError, KeyError):
            return None
        record = (self.partition, self.offset, self.log_time, self.key, self.value, headers)
        return from_parts(*record, partitions) if is_readable(headers) else unreadable(*record)


def quarantined(row: Row) -> Quarantined:
    """A row of the statement `quarantine`."""
    return Quarantined(row[0], row[1], moment(row[2]), *row[3:])


def check_quarantined(findings: Findings, row: Quarantined, record: LogRecord | None, topic: str) -> bool:
    """Whether a row is what its own bytes say. Returns whether this version reads it as a valid event."""
    findings.compare("quarantine", row.name, "topic", topic, row.topic)
    if record is None:
        findings.add("quarantine", row.name, "headers", "headers as the consumer writes them", row.headers)
        return False
    if record.fault is None:
        return True
    if not row.is_retried and row.reason not in (record.fault.reason.value, Reason.REFUSED_BY_POSTGRES.value):
        findings.add(
            "quarantine", row.name, "reason", f"{record.fault.reason.value} ({record.fault.detail})", row.reason
        )
    return False


def compare_quarantined(findings: Findings, record: LogRecord, row: Quarantined) -> None:
    """A record of the log against its row."""
    for field, expected, found in (
        ("log_time", record.log_time, row.log_time),
        ("key", record.key, row.key),
        ("value", record.value, row.value),
        ("headers", headers_document(record.headers), row.headers),
    ):
        findings.compare("quarantine", row.name, field, expected, found)


def number_of(record: LogRecord | None) -> Numbered | None:
    """The publisher's number that a quarantined record was counted by."""
    return number_in_headers(record) if record is not None else None
