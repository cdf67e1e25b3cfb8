"""docs/chain.md says the digests to the byte: here they are computed from the page's words, apart from the product's code."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from milepost.consumer import chain
from milepost.consumer.records import LogRecord
from milepost.schemas import CheckpointCreated, Event, SessionDeleted
from tests.fixtures.messagepack import packed
from tests.fixtures.strategies import events
from tests.fixtures.view import FakeLog

PAGE = Path(__file__).parent.parent.parent / "docs" / "chain.md"
MOMENT = datetime(2026, 11, 30, 12, tzinfo=UTC)
EXAMPLE: list[Event] = [
    CheckpointCreated(
        tenant_id="acme",
        session_id="trip-42",
        checkpoint_id="c1",
        state=b'{"$type":0,"b":1,"a":2}',
        step=1,
        labels={"workflow": "travel"},
        created_at=MOMENT,
        event_id=UUID("01a22df8-2a7c-7a22-9f58-30a436d2a2f5"),
    ),
    SessionDeleted(
        tenant_id="acme",
        session_id="trip-42",
        reason="asked to",
        deleted_at=MOMENT + timedelta(seconds=1),
        event_id=UUID("01a22df8-2e64-7a22-9f58-30a436d2a2f5"),
    ),
]


def by_the_page(previous: bytes, record: LogRecord, seq: int, outcome: str) -> bytes:
    """The chain after an event, from its headers and value alone."""
    headers = {name: value.decode() for name, value in record.headers if value is not None}
    kind = headers["ce_type"].removeprefix("milepost.").removesuffix(".v1")
    made = datetime.fromisoformat(headers["ce_time"])
    value = record.value

    def text(name: str) -> str | None:
        return headers.get(name)

    def number(name: str) -> int | None:
        return int(headers[name]) if name in headers else None

    def identifier(name: str) -> bytes | None:
        return bytes.fromhex(headers[name].replace("-", "")) if name in headers else None

    fields = [
        *(1, kind, outcome, seq, text("ce_tenantid"), text("ce_sessionid"), identifier("ce_id")),
        (made - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1),
        *(text("ce_source"), text("ce_checkpointid"), text("ce_parentid"), identifier("ce_runid"), number("ce_step")),
        *(text("ce_nextnode"), text("ce_reason"), text("ce_frameworkversion"), number("ce_schemaversion")),
        headers.get("ce_pinned") == "true",
        headers["ce_labels"].encode() if "ce_labels" in headers else None,
        *(identifier("ce_publisherid"), number("ce_publisherseq"), text("traceparent"), text("tracestate"), None),
        len(value or b""),
        sha256(value).digest() if value is not None else None,
    ]
    return sha256(previous + packed(fields)).digest()


def partition_by_the_page(previous: bytes, record: LogRecord) -> bytes:
    """The partition's digest after a record."""
    value = sha256(record.value).digest() if record.value is not None else None
    content = [record.offset, record.log_time // 1_000, record.key, value]
    return sha256(previous + packed(content) + packed(record.headers)).digest()


def test_the_pages_example() -> None:
    log = FakeLog()
    for event in EXAMPLE:
        log.append(event)
    session = partition = bytes(32)
    found = []
    for seq, record in enumerate(log.records, 1):
        session = by_the_page(session, record, seq, "applied")
        partition = partition_by_the_page(partition, record)
        found.append((str(seq), session.hex(), partition.hex()))
    assert re.findall(r"^\| (\d) \| `([0-9a-f]{64})` \| `([0-9a-f]{64})` \|$", PAGE.read_text(), re.MULTILINE) == found


@given(st.lists(events(), max_size=10))
def test_the_product_computes_what_the_page_says(happened: list[Event]) -> None:
    log = FakeLog()
    session = partition = bytes(32)
    for seq, event in enumerate(happened, 1):
        record = log.append(event)
        assert record.event is not None
        expected = by_the_page(session, record, seq, "applied"), partition_by_the_page(partition, record)
        session = chain.extend(session, record.event, seq, "applied")
        partition = chain.extend_partition(partition, record)
        assert (session, partition) == expected
