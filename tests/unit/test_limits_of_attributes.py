"""What attributes may be: sizes, names in sentences, media types, times and labels."""

from __future__ import annotations

import pytest

from milepost.schemas import Envelope, InvalidRecord, Reason, decode
from milepost.schemas.codec.media import is_json, is_structured
from tests.unit.test_structured import BINARY, enveloped

Found = tuple[Reason, str]
STRUCTURED = [("content-type", b"application/cloudevents+json")]


def judged(*more: tuple[str, bytes], without: str = "", value: bytes = b"{}") -> Envelope | Found:
    headers = [pair for pair in BINARY if pair[0] != without]
    return of(value, [*headers, *more])


def of(value: bytes, headers: list[tuple[str, bytes]]) -> Envelope | Found:
    try:
        return decode(b"t/s", value, headers)
    except InvalidRecord as fault:
        return fault.reason, fault.detail


def test_sizes_of_attributes() -> None:
    assert isinstance(judged(("ce_x", b"x" * 65_536)), Envelope)
    assert judged(("ce_x", b"x" * 65_537)) == (
        Reason.INVALID_ATTRIBUTE,
        "ce_x: expected at most 65536 bytes, found 65537 bytes",
    )
    assert judged(("ce_reason", b"x" * 65_537)) == (
        Reason.INVALID_ATTRIBUTE,
        "ce_reason: expected at most 65536 bytes, found 65537 bytes",
    )
    # what is no attribute is left out, whatever its size
    assert isinstance(judged(("other", b"x" * 1_000_000)), Envelope)


def test_size_of_all_unknown_ones() -> None:
    four = [(f"ce_{number}", b"x" * 65_532) for number in range(4)]
    assert isinstance(judged(*four), Envelope)
    assert judged(*four, ("ce_y", b"")) == (
        Reason.INVALID_ATTRIBUTE,
        "ce_y: expected unknown attributes of at most 262144 bytes in all, found 262148 bytes",
    )


def test_names() -> None:
    assert isinstance(judged(("ce_" + "n" * 253, b"1")), Envelope)
    reason, detail = judged(("ce_" + "n" * 254, b"1"))  # type: ignore[misc]
    assert reason is Reason.INVALID_ATTRIBUTE
    assert detail.endswith("expected a name of at most 256 characters, found 257 characters")
    member = b'1,"' + b"n" * 1_000 + b'":1'
    assert of(enveloped(member), STRUCTURED)[0] is Reason.INVALID_ATTRIBUTE  # type: ignore[index]


@pytest.mark.parametrize(
    "name", ["ce_\x1b[2J\n", "ce_" + "\x1b" * 1_000_000, "ce_\u202e"], ids=["escape", "long", "override"]
)
def test_names_in_sentences(name: str) -> None:
    written = name[3:].encode("unicode_escape").replace(b"\\x", b"\\u00").replace(b"\\\\", b"\\")
    cases = [
        judged((name, b"\xff")),
        judged((name, b"1"), (name, b"2")),
        of(enveloped(b'1,"' + written + b'":[1]'), STRUCTURED),
        of(enveloped(b'1,"' + written + b'":"\\ud800"'), STRUCTURED),
    ]
    for case in cases:
        reason, detail = case  # type: ignore[misc]
        assert reason in (Reason.INVALID_ATTRIBUTE, Reason.REPEATED_ATTRIBUTE)
        assert detail.isprintable()
        assert len(detail) < 300
        assert "'ce_\\" in detail


def test_media_types() -> None:
    for right in (
        b"application/json; charset = utf-8",
        b"application/vnd.x.y+json",
        b"a/b+json;charset=UTF-8",
        b"a/+b+json",
    ):
        assert is_json(right) == (right != b"a/+b+json")
    for wrong in (
        b"application/json; charset = utf-16",
        b'application/json;charset\t=\t"utf-16"',
        b"+json",
        b"x+json",
        b"/+json",
        b"a/+json",
    ):
        assert not is_json(wrong)
    with pytest.raises(InvalidRecord, match="at most 4096 bytes, found 5000 bytes"):
        is_structured(b"application/json;".ljust(5_000, b"x"))


def test_the_end_of_time() -> None:
    expected = "ce_time: expected a time between the years 1 and 9999 UTC, rounded to microseconds, found "
    for late in (b"9999-12-31T23:59:59.9999999Z", b"9999-12-31t23:59:59.9999995+00:00"):
        assert judged(("ce_time", late), without="ce_time") == (Reason.INVALID_ATTRIBUTE, f"{expected}{late!r}")
    assert isinstance(judged(("ce_time", b"9999-12-31T23:59:59.9999994Z"), without="ce_time"), Envelope)
    assert judged(("ce_time", b"9999-12-31T24:59:59.9999999Z"), without="ce_time") == (
        Reason.INVALID_ATTRIBUTE,
        "ce_time: expected an RFC 3339 time with its offset from UTC, found b'9999-12-31T24:59:59.9999999Z'",
    )
    plain, colon = (
        judged(("ce_time", b"2026-11-30T13:00:00" + offset), without="ce_time") for offset in (b"+0100", b"+01:00")
    )
    assert isinstance(plain, Envelope) and isinstance(colon, Envelope)
    assert plain.event_time == colon.event_time


@pytest.mark.parametrize("text", [b'{"a":"\\ud800"}', b'{"a\\udc00":"x"}', b'{"a":"\\ud800\\ud800"}'])
def test_labels_with_a_lone_surrogate(text: bytes) -> None:
    assert judged(("ce_labels", text)) == (
        Reason.INVALID_ATTRIBUTE,
        f"ce_labels: expected a flat JSON object of strings without lone surrogates, found {text!r}",
    )
