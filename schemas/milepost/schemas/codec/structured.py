"""CloudEvents' structured content mode: the record's value is a JSON object that holds attributes and data.

The data is cut out as bytes and never decoded: its extent is found by counting brackets outside of strings. What is cut
out is judged like the value of a record in binary mode, and so are the attributes, as if each were a header `ce_` + name.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Mapping
from typing import Final

import msgspec

from milepost.schemas.codec.attributes import refuse
from milepost.schemas.errors import InvalidRecord
from milepost.schemas.json_text import MAX_DEPTH, find_fault
from milepost.schemas.json_tokens import FLAT, STRING, WS, found_at
from milepost.schemas.reasons import Reason

MAX_MEMBERS: Final = 1_000
"""Of an envelope: it is read member by member."""

_DATA: Final = "data"
_BASE64: Final = "data_base64"
_NOT_ATTRIBUTES: Final = frozenset({_DATA, _BASE64})
_KEPT_HEADERS: Final = ("traceparent", "tracestate")

# inside of data anything may stand that does not hide where it ends: whether it is a state is judged later
_ANY_STRING: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_BETWEEN: Final = rb'[^"\[\]{}]*+'


def _balanced(levels: int) -> bytes:
    """Bytes up to a bracket outside of strings, over containers of so many levels; each is read `levels` times at most."""
    inside = rb"(?>" + _ANY_STRING + rb"|[\[{]" + _balanced(levels - 1) + rb"[\]}])" if levels else _ANY_STRING
    return _BETWEEN + rb"(?:" + inside + _BETWEEN + rb")*+"


_match_begin: Final = re.compile(WS + rb"\{" + WS).match
_match_name: Final = re.compile(rb"(" + STRING + rb")" + WS + rb":" + WS).match
_match_flat: Final = re.compile(FLAT).match
_match_any_flat: Final = re.compile(rb"(?s:" + _ANY_STRING + rb'|[^,\[\]{}"\s]++)').match
_match_to_bracket: Final = re.compile(rb"(?s:" + _balanced(4) + rb")").match
_match_comma: Final = re.compile(WS + rb"," + WS).match
_match_end: Final = re.compile(WS + rb"\}" + WS).match
_decode_text: Final = msgspec.json.Decoder(str).decode


def open_envelope(value: bytes | None, headers: Mapping[str, bytes]) -> tuple[dict[str, bytes], bytes | None]:
    """The attributes, named as in binary mode, and the data of an envelope; None where it has no data.

    Of the headers only the trace context counts. Raises `InvalidRecord` for an envelope that can't be cut apart.
    """
    if value is None:
        raise InvalidRecord(Reason.BAD_ENVELOPE, "expected a JSON object as the record's value, found null")
    members = _members(value)
    if "specversion" not in members:
        raise InvalidRecord(Reason.MISSING_ATTRIBUTE, "expected the attribute specversion in the envelope, found none")
    attributes = {
        f"ce_{name}": _attribute(name, raw)
        for name, raw in members.items()
        if name not in _NOT_ATTRIBUTES and raw != b"null"
    }
    if (content_type := attributes.pop("ce_datacontenttype", None)) is not None:
        attributes["content-type"] = content_type
    attributes |= {name: headers[name] for name in _KEPT_HEADERS if name in headers}
    return attributes, _data(members)


def _members(text: bytes) -> dict[str, bytes]:
    """The members of the object, each value as it stands, without the white space around it."""
    members: dict[str, bytes] = {}
    if (match := _match_begin(text)) is None:
        raise _broken(text, 0, "a JSON object")
    at = match.end()
    while (match := _match_name(text, at)) is not None:
        name = _name(match[1])
        if name in members:
            raise InvalidRecord(Reason.REPEATED_ATTRIBUTE, f"expected the member {name!r:.100} once, found it again")
        if len(members) == MAX_MEMBERS:
            raise _broken(text, at, f"at most {MAX_MEMBERS} members")
        start = match.end()
        at = _end_of_data(text, start) if name == _DATA else _end_of_attribute(text, start, name)
        members[name] = text[start:at]
        if (comma := _match_comma(text, at)) is None:
            break
        at = comma.end()
    else:
        if members or text[at : at + 1] != b"}":
            raise _broken(text, at, "the name of a member in quotes, and a colon")
    if (end := _match_end(text, at)) is None:
        raise _broken(text, at, "',' or '}'")
    if end.end() != len(text):
        raise _broken(text, end.end(), "the end of the envelope")
    return members


def _name(raw: bytes) -> str:
    try:
        return _decode_text(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise InvalidRecord(Reason.BAD_ENVELOPE, f"expected names of members in Unicode, found {raw!r:.100}") from None


def _end_of_attribute(text: bytes, start: int, name: str) -> int:
    if (match := _match_flat(text, start)) is not None:
        return match.end()
    if text[start : start + 1] in (b"[", b"{"):
        refuse(f"ce_{name}", "a string, a number, true or false", text[start : start + 40])
    raise _broken(text, start, f"the value of {name!r:.100}")


def _end_of_data(text: bytes, start: int) -> int:
    """Where a value ends that may be no JSON, but is held together by its brackets or by its quotation marks."""
    if text[start : start + 1] not in (b"[", b"{"):
        if (flat := _match_any_flat(text, start)) is None:
            raise _broken(text, start, "the value of 'data'")
        return flat.end()
    depth, at = 1, start + 1
    while (match := _match_to_bracket(text, at)) is not None:
        at = match.end() + 1
        bracket = text[at - 1 : at]
        if bracket in (b"]", b"}"):
            depth -= 1
            if not depth:
                return at
        elif bracket in (b"[", b"{"):
            depth += 1
            if depth > MAX_DEPTH:
                check_state(text[start:at])
        else:
            break
    raise _broken(text, at - 1, "the end of 'data'")


def check_state(state: bytes) -> None:
    """Raise `InvalidRecord` when the bytes are no valid state."""
    if (fault := find_fault(state)) is not None:
        raise InvalidRecord(Reason(f"state_{fault.code}"), str(fault))


def _attribute(name: str, raw: bytes) -> bytes:
    """What the header of this attribute would hold: a text in UTF-8, a number or a boolean as it is written."""
    if not raw.startswith(b'"'):
        return raw
    if b"\\" not in raw:
        return raw[1:-1]
    try:
        return _decode_text(raw).encode()
    except (msgspec.DecodeError, UnicodeDecodeError):
        refuse(f"ce_{name}", "Unicode", raw)


def _data(members: Mapping[str, bytes]) -> bytes | None:
    data, encoded = members.get(_DATA, b"null"), members.get(_BASE64, b"null")
    if encoded == b"null":
        return data if data != b"null" else None
    if data != b"null":
        raise InvalidRecord(Reason.BAD_ENVELOPE, "expected data or data_base64, found both")
    if not encoded.startswith(b'"'):
        raise InvalidRecord(Reason.BAD_ENVELOPE, f"data_base64: expected a string, found {encoded!r:.40}")
    text = _attribute(_BASE64, encoded)
    try:
        decoded = binascii.a2b_base64(text, strict_mode=True)
    except binascii.Error as error:
        raise InvalidRecord(Reason.BAD_ENVELOPE, f"data_base64: expected base64 (RFC 4648), found: {error}") from None
    # section 3.5: bits that stand for nothing are zero, so that each state has one spelling
    if binascii.b2a_base64(decoded, newline=False) != text:
        raise InvalidRecord(Reason.BAD_ENVELOPE, "data_base64: expected base64 (RFC 4648), found bits after its end")
    return decoded


def _broken(text: bytes, at: int, expected: str) -> InvalidRecord:
    return InvalidRecord(Reason.BAD_ENVELOPE, f"at byte {at}: expected {expected}, found {found_at(text, at)}")
