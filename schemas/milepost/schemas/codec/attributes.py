"""How each attribute's text is read; each raises `InvalidRecord` naming attribute, expected and found."""

from __future__ import annotations

import json
import re
from binascii import Error as NoHex
from binascii import unhexlify
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final, NoReturn

import msgspec

from milepost.schemas.errors import InvalidRecord
from milepost.schemas.ids import MAX_ID_CHARACTERS, id_problem, text_problem
from milepost.schemas.reasons import Reason
from milepost.schemas.wire import KNOWN_ATTRIBUTES, MAX_INTEGER, MAX_LABELS_BYTES, MAX_TEXT_CHARACTERS

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_FIRST: Final = (datetime(1, 1, 1, tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LAST: Final = (datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC) - _EPOCH) // _MICROSECOND
_UUID = re.compile(rb"[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}")
_PLAIN_NAME = re.compile(r"ce_[a-z0-9]{1,60}")
_FINER = re.compile(rb"(\.[0-9]{6})[0-9]+")
_PLAIN_ID: Final = bytes(set(range(0x20, 0x7F)) - set(b"/"))
_ZERO: Final = ord("0")
_MINUTE: Final = len("2026-11-30T12:00:")
_USUAL: Final = len("2026-11-30T12:00:00.000000Z")
_decode_labels = msgspec.json.Decoder(dict[str, str]).decode
_read_time = msgspec.json.Decoder(datetime).decode


def refuse(name: str, expected: str, found: bytes | str) -> NoReturn:
    """Say that an attribute's value breaks its rule: bytes are the value, a text says what it is."""
    if isinstance(found, bytes):
        found = repr(found) if len(found) <= 80 else f"{found[:77]!r}…"
    raise InvalidRecord(Reason.INVALID_ATTRIBUTE, f"{shown_name(name)}: expected {expected}, found {found}")


def shown_name(name: str) -> str:
    """A name for a sentence: one that is none by CloudEvents' rule is quoted, without control characters, and cut."""
    return name if name in KNOWN_ATTRIBUTES or _PLAIN_NAME.fullmatch(name) else f"{name[:80]!r:.100}"


def text(name: str, value: bytes) -> str:
    """A printable UTF-8 text of at most 4,096 characters."""
    try:
        decoded = value.decode()
    except UnicodeDecodeError:
        refuse(name, "UTF-8", value)
    if not 1 <= len(decoded) <= MAX_TEXT_CHARACTERS:
        refuse(name, f"1 to {MAX_TEXT_CHARACTERS} characters", f"{len(decoded)} characters")
    if (problem := text_problem(decoded)) is not None:
        raise InvalidRecord(Reason.INVALID_ATTRIBUTE, f"{name}: {problem}")
    return decoded


def identifier(name: str, value: bytes) -> str:
    """A session or checkpoint id."""
    if 1 <= len(value) <= MAX_ID_CHARACTERS and not value.translate(None, _PLAIN_ID):
        return value.decode()
    decoded = text(name, value)
    if (problem := id_problem(decoded)) is not None:
        raise InvalidRecord(Reason.INVALID_ATTRIBUTE, f"{name}: {problem}")
    return decoded


def uuid_bytes(name: str, value: bytes) -> bytes:
    """A UUID in its usual form or in 32 hexadecimal digits, as 16 bytes (RFC 9562, section 4)."""
    digits = value.replace(b"-", b"")
    # the usual form, without the costs of a pattern: four hyphens where they belong, and 32 digits
    if not (len(value) == 36 and value[8:24:5] == b"----" and len(digits) == 32) and _UUID.fullmatch(value) is None:
        refuse(name, "a UUID", value)
    try:
        return unhexlify(digits)
    except NoHex:
        refuse(name, "a UUID", value)


def integer(name: str, value: bytes, minimum: int = 0) -> int:
    """A decimal integer without sign or leading zeros."""
    # up to 19 digits: more do not fit
    if value.isdigit() and len(value) < 20 and (value[0] != _ZERO or value == b"0"):
        number = int(value)
        if minimum <= number <= MAX_INTEGER:
            return number
    refuse(name, f"an integer from {minimum} to {MAX_INTEGER}", value)


def boolean(name: str, value: bytes) -> bool:
    """`true` or `false`, as CloudEvents writes them."""
    if value not in (b"true", b"false"):
        refuse(name, "true or false", value)
    return value == b"true"


def digest(name: str, value: bytes) -> bytes:
    """A SHA-256 in 64 hexadecimal digits."""
    try:
        decoded = bytes.fromhex(value.decode("ascii"))
    except ValueError:
        decoded = b""
    if len(value) != 64 or len(decoded) != 32:
        refuse(name, "64 hexadecimal digits", value)
    return decoded


@lru_cache(maxsize=256)
def labels(name: str, value: bytes) -> bytes:
    """A flat JSON object of strings, kept as it is. Without U+0000, which `jsonb` cannot hold."""
    if len(value) > MAX_LABELS_BYTES:
        refuse(name, f"at most {MAX_LABELS_BYTES} bytes", f"{len(value)} bytes")
    try:
        value.decode()
        decoded = _decode_labels(value)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if not isinstance(error, UnicodeDecodeError) and _has_lone_surrogate(value):
            refuse(name, "a flat JSON object of strings without lone surrogates", value)
        refuse(name, f"a flat JSON object of strings ({error})", value)
    if b"\\u0000" in value and any("\0" in part for pair in decoded.items() for part in pair):
        refuse(name, "no U+0000", value)
    return value


def microseconds(name: str, value: bytes) -> int:
    """An RFC 3339 time with its offset, as microseconds since 1970 UTC; finer digits are rounded to the nearest."""
    # as it is mostly written: the minute is read once for many events, and what is left of the text is a number
    if len(value) == _USUAL and value[19:27:7] == b".Z":
        within = value[_MINUTE:19] + value[20:26]
        if within.isdigit() and within < b"60" and (minute := _minute(value[:_MINUTE])) is not None:
            return minute + int(within)
    return _any_time(name, value)


@lru_cache(maxsize=1_024)
def _minute(begin: bytes) -> int | None:
    """The microseconds at which a minute begins; None for a text that is none."""
    try:
        return _any_time("minute", begin + b"00Z")
    except InvalidRecord:
        return None


def _any_time(name: str, value: bytes) -> int:
    try:
        moment = _read_time(b'"%b"' % value)
    except (msgspec.DecodeError, UnicodeDecodeError):
        moment = None
        if _is_rounded_past_the_last(value):
            refuse(name, "a time between the years 1 and 9999 UTC, rounded to microseconds", value)
    if moment is None or moment.tzinfo is None or b"\\" in value:
        refuse(name, "an RFC 3339 time with its offset from UTC", value)
    if not _FIRST <= (since := (moment - _EPOCH) // _MICROSECOND) <= _LAST:
        refuse(name, "a time between the years 1 and 9999 UTC", value)
    return since


def _is_rounded_past_the_last(value: bytes) -> bool:
    """Whether only its finer digits make a text no time: rounded up it lies past the year 9999."""
    try:
        return value.startswith(b"9999-12-31") and bool(_read_time(b'"%b"' % _FINER.sub(rb"\1", value)))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False


def _has_lone_surrogate(value: bytes) -> bool:
    try:
        decoded = json.loads(value.decode())
        if isinstance(decoded, dict):
            "".join([*decoded, *decoded.values()]).encode()
    except UnicodeEncodeError:
        return True
    except (ValueError, TypeError, RecursionError):
        pass
    return False


def to_microseconds(moment: datetime) -> int:
    """Microseconds since 1970 UTC."""
    return (moment - _EPOCH) // _MICROSECOND


def to_datetime(value: int) -> datetime:
    """The moment, in UTC, that many microseconds after 1970."""
    return _EPOCH + value * _MICROSECOND
