"""What is recorded: every kind, attribute and outcome, the odd states, and the records of other publishers and of none.

All of it is fixed, so that one version always records the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from uuid import UUID
from zlib import crc32

import msgspec

from milepost.schemas import CheckpointCreated, Event, SessionDeleted, encode
from milepost.schemas.wire import Headers
from tests.bytes.oddities import SMALL
from tests.fixtures.corpus import corpus

START = datetime(2026, 11, 30, 12, tzinfo=UTC)
RETAIN = 3
"""The policy that the recorded view was built with."""
ELSEWHERE = "elsewhere"
"""A session whose record lies in another partition than that of its key."""
_LARGEST = 20_000
_PUBLISHER = "01939b2c-0000-7000-8000-000000000001"

Content = tuple[bytes | None, bytes | None, Headers]
"""Key, value and headers of a record."""


def contents() -> Iterator[Content]:
    """The records of the log, in order."""
    for number, (event, more) in enumerate([*_with_everything(), *_with_each_outcome(), *_odd_states()], 1):
        numbers = [("ce_publisherid", _PUBLISHER.encode()), ("ce_publisherseq", b"%d" % number)]
        yield _encoded(event, [*numbers, *more])
    yield _encoded(_created(ELSEWHERE, b"1", "c1")[0], [])
    for case in [*corpus("foreign"), *corpus("poison")]:
        record = case.record
        try:
            headers = [(name.decode(), value) for name, value in record.headers]
        except UnicodeDecodeError:
            # Kafka's client for Python cannot write it
            continue
        if len(record.value or b"") <= _LARGEST:
            yield record.key, record.value, headers


def _encoded(event: Event, more: Headers) -> Content:
    encoded = encode(event, source="/runtimes/recorded")
    headers = [(name, value.encode() if isinstance(value, str) else value) for name, value in encoded.headers]
    return encoded.key, encoded.value, [*headers, *more]


Made = tuple[Event, list[tuple[str, bytes | None]]]


def _created(session_id: str, state: bytes, checkpoint_id: str, after: int = 0, **more: object) -> Made:
    event = CheckpointCreated(
        tenant_id="acme",
        session_id=session_id,
        state=state,
        checkpoint_id=checkpoint_id,
        created_at=START + timedelta(seconds=after),
        event_id=_event_id(session_id, checkpoint_id, after),
    )
    return msgspec.structs.replace(event, **more), []


def _deleted(session_id: str, after: int, reason: str | None) -> Made:
    moment, event_id = START + timedelta(seconds=after), _event_id(session_id, "", after)
    return SessionDeleted(
        tenant_id="acme", session_id=session_id, reason=reason, deleted_at=moment, event_id=event_id
    ), []


def _event_id(session_id: str, checkpoint_id: str, after: int) -> UUID:
    """A version 7 of that moment, always the same."""
    milliseconds = int(START.timestamp() + after) * 1_000
    return UUID(int=milliseconds << 80 | 7 << 76 | 2 << 62 | crc32(f"{session_id}/{checkpoint_id}".encode()))


def _with_everything() -> Iterator[Made]:
    event, _ = _created(
        *("trip-42/é 😀", b'{"$type":0,"b":1.0,"a":2}', "c1"),
        parent_id="c0",
        run_id=UUID(int=7),
        step=4,
        next_node="book-hotel",
        framework_version="1.2.3",
        schema_version=5,
        pinned=True,
        labels={"workflow": "travel", "ключ": "значение"},
    )
    trace: list[tuple[str, bytes | None]] = [
        ("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ("tracestate", b"vendor=value"),
        ("ce_unknownattribute", "kept: é".encode()),
        ("ce_empty", b""),
    ]
    yield event, trace


def _with_each_outcome() -> Iterator[Made]:
    for number in range(8):
        yield _created("pruned", b'{"n":%d}' % number, f"c{number}", number, pinned=number == 1)
    first = _created("rules", b'{"n":1}', "a", 10)
    yield first
    yield first
    yield msgspec.structs.replace(first[0], state=b'{"n":2}'), []
    yield _created("rules", b'{"n":1}', "a", 11)
    yield _created("rules", b'{"n":3}', "a", 12)
    yield _created("rules", b'{"n":4}', "b", 13)
    yield _deleted("rules", 20, "asked to")
    yield _created("rules", b'{"n":5}', "late", 15)
    yield _deleted("rules", 18, None)
    yield _created("rules", b'{"n":6}', "a", 21)
    yield _created("gone", b'{"n":1}', "a", 1)
    yield _deleted("gone", 2, None)


def _odd_states() -> Iterator[Made]:
    for name, state in SMALL.items():
        yield _created(f"odd {name}".replace("$", ""), state, "c1")
