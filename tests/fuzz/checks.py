"""What must hold of any record, whatever it holds."""

from __future__ import annotations

import json
from hashlib import sha256

import msgspec

from milepost.consumer.chain import extend_partition
from milepost.consumer.headers import headers_document, headers_of
from milepost.consumer.quarantine import quarantine_values
from milepost.consumer.records import LogRecord, from_parts
from milepost.schemas import Envelope, InvalidRecord, Kind, Reason, decode, find_fault
from tests.fuzz.records import Record


def check(record: Record) -> str:
    """Decode a record, check all that must hold of the result, and give its kind or its reason."""
    key, value, headers = record
    found = from_parts(0, 7, 1_800_000_000_000_000, key, value, headers)
    assert headers_of(headers_document(headers)) == headers
    assert len(extend_partition(bytes(32), found)) == 32
    if found.event is None:
        return check_fault(found)
    check_event(found, found.event)
    assert decode(key, value, headers) == found.event
    return found.event.kind.value


def check_fault(found: LogRecord) -> str:
    """The reason is one of the documented ones, and all of it can be stored."""
    assert isinstance(found.fault, InvalidRecord)
    assert isinstance(found.fault.reason, Reason)
    for part in quarantine_values(found, "milepost.events"):
        if isinstance(part, str):
            assert "\0" not in part
            part.encode()
    assert 0 < len(found.fault.detail) < 1_000
    return found.fault.reason.value


def check_event(found: LogRecord, event: Envelope) -> None:
    """Whose it is, what it holds, and that Postgres can take each column."""
    assert found.key == f"{event.tenant_id}/{event.session_id}".encode()
    if event.kind is Kind.CHECKPOINT_CREATED:
        assert event.state is not None and found.value is not None
        assert find_fault(event.state) is None
        assert event.sha256 == sha256(event.state).digest()
        assert event.state == found.value or is_structured(found)
        assert event.checkpoint_id is not None
    else:
        assert event.state is None and event.sha256 is None and event.checkpoint_id is None
    for name in event.__struct_fields__:
        part = getattr(event, name)
        if isinstance(part, str):
            assert "\0" not in part
            part.encode()
        if isinstance(part, int) and name != "event_time":
            assert 0 <= part < 2**63
    assert -62_135_596_800_000_000 <= event.event_time < 253_402_300_800_000_000
    for document in (event.labels, event.extensions):
        if document is not None:
            assert all(isinstance(text, str) for text in msgspec.json.decode(document, type=dict[str, str]).values())


def is_structured(found: LogRecord) -> bool:
    """Whether the state was cut out of an envelope: then it stands there as it is, or in base64."""
    assert found.event is not None and found.event.state is not None and found.value is not None
    if found.event.state in found.value:
        return True
    return "data_base64" in json.loads(found.value)
