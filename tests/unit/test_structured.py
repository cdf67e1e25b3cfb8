"""The structured mode's cutter: data verbatim, the same verdict as in binary mode, and linear on hostile input."""

from __future__ import annotations

import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from milepost.schemas import MAX_STATE_BYTES, Envelope, InvalidRecord, decode
from milepost.schemas.codec.structured import MAX_MEMBERS
from tests.properties.test_json_postgres import mutated, right

HEADERS = [("content-type", b"application/cloudevents+json")]
ATTRIBUTES = (
    b'"specversion":"1.0","type":"milepost.checkpoint-created.v1","id":"018f3c5e-0000-7000-8000-000000000001","source":"/x",'
    b'"time":"2026-11-30T12:00:00Z","tenantid":"t","sessionid":"s","checkpointid":"c"'
)
BINARY = [
    ("ce_specversion", b"1.0"),
    ("ce_type", b"milepost.checkpoint-created.v1"),
    ("ce_id", b"018f3c5e-0000-7000-8000-000000000001"),
    ("ce_source", b"/x"),
    ("ce_time", b"2026-11-30T12:00:00Z"),
    ("ce_tenantid", b"t"),
    ("ce_sessionid", b"s"),
    ("ce_checkpointid", b"c"),
]
WHITE = b" \t\r\n"
law = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def verdict(value: bytes, headers: list[tuple[str, bytes]] = HEADERS) -> Envelope | str:
    """The event, or the reason."""
    try:
        return decode(b"t/s", value, headers)
    except InvalidRecord as fault:
        return fault.reason.value


def enveloped(data: bytes, *, first: bool = False) -> bytes:
    member = b'"data":' + data
    return b"{" + (member + b"," + ATTRIBUTES if first else ATTRIBUTES + b"," + member) + b"}"


@law
@given(right, st.booleans(), st.sampled_from([b"", b" ", b"\r\n\t"]))
def test_a_state_in_an_envelope_is_the_state_alone(state: bytes, first: bool, space: bytes) -> None:
    state = state.strip(WHITE)
    found = verdict(enveloped(space + state + space, first=first))
    assert found == ("missing_state" if state == b"null" else verdict(state, BINARY))


@law
@given(mutated(right), st.booleans())
def test_a_wrong_state_in_an_envelope_is_never_another_state(data: bytes, first: bool) -> None:
    """What is cut out is the data itself, and valid; or the record is refused."""
    found = verdict(enveloped(data, first=first))
    if isinstance(found, Envelope) and found.extensions is None:
        assert found.state == data.strip(WHITE)
        assert verdict(data, BINARY) != "state_not_json"


M = 10_000_000
HOSTILE = {
    "brackets that open": b"[" * M,
    "brackets of both kinds": b'{"a":[' * (M // 6),
    "escaped quotes": b'"' + b'\\"' * (M // 2),
    "backslashes": b'"' + b"\\" * M,
    "digits": b"1" * M,
    "commas": b"1," * (M // 2),
    "empty arrays": b"[" + b"[]," * (M // 3) + b"1]",
    "small objects": b"[" + b'{"a":{"b":[1]}},' * (M // 16) + b"1]",
    "a step in Python every few bytes": b"[" + b"[[[[[1]]]]]," * (M // 100) + b"1]",
    "strings": b"[" + b'"a",' * (M // 4) + b"1]",
    "quotes": b'"' * M,
    "members": b'1,"a":1' * (M // 7),
    "white space": b" " * M + b"1",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_data_is_judged_in_linear_time(name: str) -> None:
    """Ten megabytes each, but for the dearest kind: where something was quadratic it would take hours."""
    data = HOSTILE[name]
    begun = time.process_time()
    verdict(enveloped(data))
    assert time.process_time() - begun < 6


def test_the_number_of_members_is_limited() -> None:
    few = b",".join(b'"x%d":1' % number for number in range(MAX_MEMBERS - 9))
    assert isinstance(verdict(enveloped(b"1," + few)), Envelope)
    assert verdict(enveloped(b"1," + few + b',"more":1')) == "bad_envelope"
    begun = time.process_time()
    assert verdict(b"{" + b",".join(b'"%d":1' % number for number in range(1_000_000)) + b"}") == "bad_envelope"
    assert time.process_time() - begun < 2


def test_the_envelope_may_be_larger_than_a_state() -> None:
    state = b'"'.ljust(MAX_STATE_BYTES - 1, b"x") + b'"'
    found = verdict(enveloped(state + b" " * 900_000))
    assert isinstance(found, Envelope)
    assert found.size == MAX_STATE_BYTES
    assert verdict(enveloped(b" " + state[:-1] + b'x"')) == "state_too_large"


@pytest.mark.parametrize(
    "value, reason",
    [
        (b"", "bad_envelope"),
        (b"null", "bad_envelope"),
        (b"[]", "bad_envelope"),
        (b"\xef\xbb\xbf{}", "bad_envelope"),
        (b"{" + ATTRIBUTES + b",}", "bad_envelope"),
        (b"{" + ATTRIBUTES + b"} x", "bad_envelope"),
        (b"{" + ATTRIBUTES, "bad_envelope"),
        (b"{'a':1}", "bad_envelope"),
        (b'{"a" 1}', "bad_envelope"),
        (b'{"\xff":1}', "bad_envelope"),
        (b'{"\\ud800":1}', "bad_envelope"),
        (enveloped(b""), "bad_envelope"),
        (enveloped(b"1 2"), "bad_envelope"),
        (enveloped(b'1,"x":tru'), "bad_envelope"),
        (enveloped(b'1,"x":[1]'), "invalid_attribute"),
        (enveloped(b'1,"x":"\xff"'), "invalid_attribute"),
        (enveloped(b'1,"id":"again"'), "repeated_attribute"),
        (enveloped(b'1,"\\u0069d":"again"'), "repeated_attribute"),
        (enveloped(b'1,"data_base64":"MQ=="'), "bad_envelope"),
        (enveloped(b'null,"data_base64":1'), "bad_envelope"),
        (enveloped(b'null,"data_base64":"MQ"'), "bad_envelope"),
        (enveloped(b'null,"data_base64":"MR=="'), "bad_envelope"),
        (enveloped(b'null,"data_base64":"M Q=="'), "bad_envelope"),
        (enveloped(b'null,"data_base64":"_-8="'), "bad_envelope"),
        (enveloped(b'null,"data_base64":""'), "state_empty"),
        (enveloped(b"null"), "missing_state"),
        (enveloped(b"[}"), "state_not_json"),
        (enveloped(b"nul"), "state_not_json"),
        (enveloped(b'"\x01"'), "state_not_json"),
        (enveloped(b'"\xff"'), "state_invalid_utf8"),
        (enveloped(b"[" * 5_001 + b"]" * 5_001), "state_too_deep"),
    ],
)
def test_reasons(value: bytes, reason: str) -> None:
    assert verdict(value) == reason
