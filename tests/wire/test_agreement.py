"""The schemas and the codec say the same: what one refuses, the other refuses."""

from __future__ import annotations

import random
import re
from datetime import UTC, datetime
from hashlib import sha256

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from milepost.schemas import (
    CheckpointCreated,
    EncodedEvent,
    InvalidRecord,
    Kind,
    Reason,
    SessionDeleted,
    decode,
    encode,
)
from milepost.schemas.codec import attributes
from milepost.schemas.codec.decode import MAX_ATTRIBUTE_BYTES
from milepost.schemas.ids import MAX_ID_CHARACTERS, MAX_TENANT_CHARACTERS, id_problem, tenant_problem, text_problem
from milepost.schemas.published import json_schema
from milepost.schemas.wire import KNOWN_ATTRIBUTES, MAX_INTEGER, MAX_LABELS_BYTES, MAX_TEXT_CHARACTERS, TYPES
from tests.wire import strategies
from tests.wire.helpers import CREATED, DELETED, SOURCE, instance, received, validator

VALIDATORS = {kind: validator(kind) for kind in Kind}
TIME, TENANT, IDENTIFIER, KEY = (validator(CREATED, name) for name in ("time", "tenantId", "identifier", "key"))
NAMES = sorted(KNOWN_ATTRIBUTES | {"content-type", "traceparent", "tracestate"})
FULL = CheckpointCreated(
    tenant_id="acme", session_id="s", state=b"{}", parent_id="p", step=1, next_node="n", labels={"a": "b"}, pinned=True
)
EXAMPLES = {
    CREATED: encode(FULL, source=SOURCE),
    DELETED: encode(SessionDeleted(tenant_id="t", session_id="s"), source=SOURCE),
}

_DAY = "(20[0-9]{2}|0001|9998)-[01][0-9]-[0-3][0-9]"
_MOMENT = r"[Tt ][0-2][0-9]:[0-6][0-9]:[0-6][0-9](\.[0-9]{1,9})?"
_OFFSET = "([Zz]|[+-][0-2][0-9]:?[0-6][0-9])"


def _refusal(record: EncodedEvent) -> Reason | None:
    try:
        decode(record.key, record.value, received(record.headers))
    except InvalidRecord as error:
        return error.reason
    return None


def _changed(record: EncodedEvent, name: str, text: str | None) -> EncodedEvent:
    """The record with another value of one header, or without it; the key follows the ids."""
    headers = {key: value.decode() if isinstance(value, bytes) else value for key, value in record.headers}
    headers.pop(name, None)
    if text is not None:
        headers[name] = text
    key = f"{headers.get('ce_tenantid')}/{headers.get('ce_sessionid')}"
    if name != "ce_partitionkey" and "ce_partitionkey" in headers:
        headers["ce_partitionkey"] = key
    return EncodedEvent(key.encode(), record.value, list(headers.items()))


@given(strategies.events)
def test_what_encode_makes_is_valid(event: CheckpointCreated | SessionDeleted) -> None:
    record = encode(event, source=SOURCE)
    kind = CREATED if isinstance(event, CheckpointCreated) else DELETED
    VALIDATORS[kind].validate(instance(record.key, record.headers))


@settings(max_examples=500)
@given(strategies.events, st.sampled_from(NAMES), st.none() | strategies.texts)
@example(FULL, "ce_labels", '{"a":"\ufffe"}')
@example(FULL, "ce_reason", "1" * 65_537)
def test_a_changed_record_is_judged_alike(
    event: CheckpointCreated | SessionDeleted, name: str, text: str | None
) -> None:
    kind = CREATED if isinstance(event, CheckpointCreated) else DELETED
    _judge_alike(kind, encode(event, source=SOURCE), name, text)


@pytest.mark.parametrize("text", [None, *strategies.SAMPLES], ids=repr)
@pytest.mark.parametrize("kind", list(Kind))
def test_every_sample_in_every_attribute_is_judged_alike(kind: Kind, text: str | None) -> None:
    for name in NAMES:
        if name != "ce_type" or text not in {known.decode() for known in TYPES}:
            _judge_alike(kind, EXAMPLES[kind], name, text)


def _judge_alike(kind: Kind, record: EncodedEvent, name: str, text: str | None) -> None:
    changed = _changed(record, name, text)
    valid = VALIDATORS[kind].is_valid(instance(changed.key, changed.headers))
    refusal = _refusal(changed)
    if refusal is Reason.KEY_MISMATCH:  # a schema has no words for one field that must fit another
        return
    accepted = refusal in (None, Reason.DIGEST_MISMATCH)  # of a digest the schema judges the form
    if text is None or not _is_documented(name, text, valid=valid, accepted=accepted):
        assert valid == accepted, f"{kind} with {name} {text!r:.100}: schema {valid}, codec {refusal}"


def _is_documented(name: str, text: str, *, valid: bool, accepted: bool) -> bool:
    """The differences that documents/README.md lists."""
    if name in ("content-type", "traceparent", "tracestate"):
        return accepted and not valid
    if name == "ce_time":
        return (accepted and not valid) or (valid and not _is_on_the_calendar(text))
    return valid and len(text.encode()) > MAX_ATTRIBUTE_BYTES


def _is_on_the_calendar(text: str) -> bool:
    try:
        datetime.fromisoformat(text.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        return False
    return True


@settings(max_examples=500)
@given(st.from_regex(rf"{_DAY}{_MOMENT}{_OFFSET}", fullmatch=True))
def test_times_are_judged_alike(text: str) -> None:
    valid = TIME.is_valid(text)
    try:
        attributes.microseconds("ce_time", text.encode())
        accepted = True
    except InvalidRecord:
        accepted = False
    rfc3339 = " " not in text and (text[-1] in "Zz" or text[-3] == ":")
    assert _is_on_the_calendar(text) or not accepted
    assert valid or not (accepted and rfc3339)
    assert accepted or not (valid and _is_on_the_calendar(text))


def test_printable_is_the_same_for_all_of_unicode() -> None:
    pattern = re.compile(json_schema(CREATED)["$defs"]["text"]["not"]["pattern"])
    characters = (chr(code) for code in (*range(0xD800), *range(0xE000, 0x110000)))
    assert [hex(ord(one)) for one in characters if (text_problem(one) is None) == bool(pattern.search(one))] == []


@pytest.mark.parametrize("kind", list(Kind))
def test_limits_are_the_constants_of_the_code(kind: Kind) -> None:
    defs = json_schema(kind)["$defs"]
    assert defs["text"]["maxLength"] == MAX_TEXT_CHARACTERS
    assert defs["identifier"]["maxLength"] == MAX_ID_CHARACTERS
    assert defs["tenantId"]["maxLength"] == MAX_TENANT_CHARACTERS
    assert defs["labels"]["maxLength"] == MAX_LABELS_BYTES
    assert defs["key"]["maxLength"] == MAX_TENANT_CHARACTERS + 1 + MAX_ID_CHARACTERS
    session = rf"[^/][\s\S]{{0,{MAX_ID_CHARACTERS - 1}}}"
    assert defs["key"]["pattern"] == rf"^[A-Za-z0-9._-]{{1,{MAX_TENANT_CHARACTERS}}}/{session}$"


def test_the_largest_integer_is_the_same() -> None:
    integer = validator(CREATED, "integer")
    seeded = random.Random(0)
    numbers = [seeded.randrange(10 ** seeded.randrange(1, 21)) for _ in range(2_000)]
    edges = [MAX_INTEGER + step * 10**power for power in range(19) for step in (-1, 0, 1)]
    for number in (*numbers, *edges):
        assert integer.is_valid(str(number)) == (number <= MAX_INTEGER), number


def test_the_letters_of_a_tenant_are_the_same() -> None:
    for letter in map(chr, range(0x250)):
        assert TENANT.is_valid(f"a{letter}") == (tenant_problem(f"a{letter}") is None), letter


@given(strategies.texts | strategies.tenants)
def test_ids_are_judged_alike(text: str) -> None:
    assert TENANT.is_valid(text) == (tenant_problem(text) is None)
    assert IDENTIFIER.is_valid(text) == (id_problem(text) is None)


@given(strategies.tenants | strategies.texts, strategies.identifiers | strategies.texts)
def test_a_key_is_valid_when_its_ids_are(tenant: str, session: str) -> None:
    assume("/" not in tenant)
    fits = tenant_problem(tenant) is None and id_problem(session) is None
    assert KEY.is_valid(f"{tenant}/{session}") == fits


def test_a_checkpoint_lists_every_attribute_that_the_codec_knows() -> None:
    assert sorted(json_schema(CREATED)["$defs"]["headers"]["properties"]) == NAMES


def test_a_deletion_lists_every_attribute_that_the_codec_reads_from_it() -> None:
    unread = {"ce_checkpointid", "ce_statesha256", "content-type"}
    assert sorted({*json_schema(DELETED)["$defs"]["headers"]["properties"], *unread}) == NAMES


def test_the_digest_that_the_schema_lets_through_is_checked_by_the_codec() -> None:
    wrong = _changed(EXAMPLES[CREATED], "ce_statesha256", sha256(b"[]").hexdigest())
    assert VALIDATORS[CREATED].is_valid(instance(wrong.key, wrong.headers))
    assert _refusal(wrong) is Reason.DIGEST_MISMATCH
