"""Events that keep the rules, and texts that keep or break them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

from hypothesis import strategies as st

from milepost.schemas import CheckpointCreated, Event, SessionDeleted
from milepost.schemas.ids import MAX_ID_CHARACTERS, MAX_TENANT_CHARACTERS
from milepost.schemas.wire import MAX_INTEGER, MAX_LABELS_BYTES, MAX_TEXT_CHARACTERS

_BIDIRECTIONAL: Final = "".join(map(chr, [*range(0x202A, 0x202F), *range(0x2066, 0x206A)]))
_characters = st.characters(
    exclude_categories=["Cs", "Cc", "Zl", "Zp"], exclude_characters=f"{_BIDIRECTIONAL}\ufeff\ufffe\uffff"
)
printable = st.text(_characters, min_size=1, max_size=30)
identifiers = printable.filter(lambda text: text[0] != "/") | st.just("é" * MAX_ID_CHARACTERS)
tenants = st.from_regex(r"[A-Za-z0-9._-]{1,128}", fullmatch=True)
integers = st.integers(0, MAX_INTEGER)
labels = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8), printable
)
_zones = st.sampled_from([UTC, timezone(timedelta(hours=-11.5)), timezone(timedelta(hours=14))])
moments = st.builds(
    lambda days, part, zone: (datetime(1, 1, 3, tzinfo=UTC) + timedelta(days, microseconds=part)).astimezone(zone),
    st.integers(0, 3_652_050),
    st.integers(0, 86_399_999_999),
    _zones,
)
states = st.sampled_from(
    [b"{}", b' {"$type": "S", "n": 1.0}\n', b'"\\ud800"', b"[" * 900 + b"]" * 900, "é".encode().join([b'"'] * 2)]
)


created: st.SearchStrategy[Event] = st.builds(
    CheckpointCreated,
    tenant_id=tenants,
    session_id=identifiers,
    state=states,
    checkpoint_id=identifiers,
    parent_id=st.none() | identifiers,
    run_id=st.none() | st.uuids(),
    step=st.none() | integers,
    next_node=st.none() | printable,
    framework_version=st.none() | printable,
    schema_version=st.none() | integers,
    pinned=st.booleans(),
    labels=labels,
    created_at=moments,
    event_id=st.uuids(),
)
deleted: st.SearchStrategy[Event] = st.builds(
    SessionDeleted,
    tenant_id=tenants,
    session_id=identifiers,
    reason=st.none() | printable,
    deleted_at=moments,
    event_id=st.uuids(),
)
events = created | deleted

_LENGTHS: Final = [
    length + more
    for length in (0, 1, MAX_TENANT_CHARACTERS, MAX_ID_CHARACTERS, MAX_TEXT_CHARACTERS, MAX_LABELS_BYTES)
    for more in (0, 1)
]
SAMPLES: Final[Sequence[str]] = [
    *["0", "00", "01", "-0", "-1", "+1", "1.0", "1e3", "٣", str(MAX_INTEGER), str(MAX_INTEGER + 1), "9" * 19, "9" * 20],
    *["true", "false", "True", "TRUE", "1.0", "null", "/", "//", "/a", "a/b", ".", "-", "_", " ", "A", "é", "😀"],
    "0197a2c4b1d07c3e9f5a6b7c8d9e0f10",
    "0197A2C4-B1D0-7c3e-9F5A-6B7C8D9E0F10",
    "0197a2c4b1d0-7c3e9f5a-6b7c8d9e0f10",
    "{0197a2c4-b1d0-7c3e-9f5a-6b7c8d9e0f10}",
    "urn:uuid:0197a2c4-b1d0-7c3e-9f5a-6b7c8d9e0f10",
    "0197a2c4-b1d0-7c3e-9f5a-6b7c8d9e0f1",
    *["f" * 63, "f" * 64, "f" * 65, "F" * 64, "g" * 64, "f" * 62 + "  "],
    *[
        "{}",
        "[]",
        '""',
        "{",
        '{"a":"b"}',
        ' {"a": "b"}\n',
        '{"a":1}',
        '{"a":null}',
        '{"a":{}}',
        '{"a":"b",}',
        '{"":""}',
    ],
    *[
        '{"a":"\\u0000"}',
        '{"\\u0000":"a"}',
        '{"a":"\\\\u0000"}',
        '{"a":"\\ud800"}',
        '{"a":"\\ud83d\\ude00"}',
        '{"a":"\n"}',
    ],
    *[
        "application/json",
        "application/vnd.acme.v1+json",
        "application/json; charset=utf-8",
        "application/json;charset=UTF-8",
    ],
    *[
        "application/json; charset=latin-1",
        "text/plain",
        "application/jsonx",
        "json",
        'application/json; charset="utf-8"',
    ],
    *["2026-03-01T12:30:45Z", "2026-03-01T12:30:45.1234567+01:00", "2026-03-01t12:30:45z", "2026-03-01T12:30:45"],
    *["2026-03-01T12:30:60Z", "2026-13-01T12:30:00Z", "2026-03-01T24:00:00Z", "2026-03-01", "2026-03-01T12:30:45.Z"],
]
_fitting = st.sampled_from(SAMPLES) | st.builds(
    lambda length, sort: sort * length, st.sampled_from(_LENGTHS), st.sampled_from("1aé")
)
texts = (
    _fitting
    | printable
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
    | st.builds(
        lambda text, end: text + end, _fitting, st.sampled_from(["\n", " ", "\0", "\u2028", "\ufeff", "x", "0"])
    )
)
"""What may stand in a header: the samples keep some rule and break others, or have the length of a limit."""
