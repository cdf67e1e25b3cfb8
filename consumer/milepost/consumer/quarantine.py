"""How a record that could not be applied is kept: whole, with the reason."""

from __future__ import annotations

import base64

import msgspec

from milepost.consumer.records import LogRecord
from milepost.schemas.wire import Headers

_encode = msgspec.json.Encoder().encode


def quarantine_values(record: LogRecord, topic: str) -> tuple[object, ...]:
    """The parameters of the statement `quarantine`."""
    if record.fault is None:
        raise ValueError("a record without a fault does not go to the quarantine")
    return (
        topic,
        record.partition,
        record.offset,
        record.log_time,
        record.key,
        _encode(headers_document(record.headers)).decode(),
        record.value,
        record.fault.reason.value,
        record.fault.detail.replace("\0", "\\0"),
    )


def headers_document(headers: Headers) -> list[list[object]]:
    """Headers as JSON: `[name, value]` in order, a value that is not UTF-8 as `{"base64": …}`."""
    return [[name, _shown(value)] for name, value in headers]


def _shown(value: bytes | None) -> object:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}
