"""Records that are events, nearly events, and anything else."""

from __future__ import annotations

import base64
import json
from typing import Final

from hypothesis import strategies as st

from milepost.schemas import encode
from milepost.schemas.wire import KNOWN_ATTRIBUTES
from tests.properties.test_json_postgres import mutated, right, soup
from tests.wire.strategies import events
from tests.wire.strategies import texts as odd_texts

Headers = list[tuple[str, bytes | None]]
Record = tuple[bytes | None, bytes | None, Headers]

NAMES: Final = [
    *sorted(KNOWN_ATTRIBUTES),
    "content-type",
    "traceparent",
    "tracestate",
    "ce_",
    "ce_color",
    "CE_ID",
    "x",
    "",
]
CONTENT_TYPES: Final = [
    *[
        b"application/json",
        b"application/cloudevents+json",
        b"application/cloudevents+json; charset=UTF-8",
        b"text/plain",
    ],
    *[
        b"Application/CloudEvents+JSON;charset=utf-16",
        b"application/cloudevents-batch+json",
        b"application/cloudevents",
    ],
]
json_texts = st.one_of(right, soup, mutated(right), st.binary(max_size=12))
odd_values = st.one_of(
    odd_texts.map(str.encode), st.binary(max_size=20), st.sampled_from(CONTENT_TYPES), json_texts, st.none()
)


@st.composite
def binary_records(draw: st.DrawFn) -> Record:
    """A publisher's record with another state and some headers added, taken away, repeated, renamed or changed."""
    encoded = encode(draw(events), source="/runtimes/fuzz")
    headers: Headers = [(name, value.encode() if isinstance(value, str) else value) for name, value in encoded.headers]
    key: bytes | None = encoded.key
    value = encoded.value
    if draw(st.booleans()):
        value = draw(json_texts | st.none())
        headers = [header for header in headers if header[0] != "ce_statesha256"]
    for _ in range(draw(st.sampled_from([0, 0, 1, 1, 2, 4]))):
        at = draw(st.integers(0, len(headers)))
        removed = draw(st.integers(0, 1))
        added = draw(
            st.lists(
                st.tuples(st.sampled_from(NAMES) | st.text(st.characters(exclude_categories=["Cs"])), odd_values),
                max_size=1,
            )
        )
        headers[at : at + removed] = added
    if draw(st.sampled_from([False] * 9 + [True])):
        key = draw(st.none() | st.binary(max_size=8))
    return key, value, headers


@st.composite
def envelopes(draw: st.DrawFn) -> Record:
    """The same in structured mode: members in any order and spelling, data as it comes, and now and then a wrong byte."""
    key, value, headers = draw(binary_records())
    members = [
        (name.removeprefix("ce_").encode(), _spelled(text or b"")) for name, text in headers if name.startswith("ce_")
    ]
    data = value if value is not None else b"null"
    members.append(
        draw(st.sampled_from([(b"data", data), (b"data", data), (b"data_base64", b'"%b"' % base64.b64encode(data))]))
    )
    members = draw(st.permutations(members))
    space = draw(st.sampled_from([b"", b" ", b"\r\n\t"]))
    body = (space + b"," + space).join(b'"%b"%b:%b%b' % (name, space, space, text) for name, text in members)
    text = space + b"{" + space + body + space + b"}" + space
    if draw(st.sampled_from([False] * 3 + [True])):
        text = draw(mutated(st.just(text)))
    return key, text, [("content-type", draw(st.sampled_from(CONTENT_TYPES[1:3])))]


def _spelled(text: bytes) -> bytes:
    """A text as a JSON string; what is no UTF-8 stands there raw."""
    try:
        return json.dumps(text.decode(), ensure_ascii=len(text) % 2 == 0).encode()
    except UnicodeDecodeError:
        return b'"%b"' % text.replace(b"\\", b"").replace(b'"', b"")


anything = st.tuples(
    st.none() | st.binary(max_size=10),
    st.none() | json_texts,
    st.lists(st.tuples(st.sampled_from(NAMES), odd_values), max_size=6),
)
records: st.SearchStrategy[Record] = st.one_of(binary_records(), binary_records(), envelopes(), envelopes(), anything)
