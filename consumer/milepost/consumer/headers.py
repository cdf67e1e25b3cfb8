"""Headers as they come from Kafka's client, as they go into the quarantine, and back.

A name that is not UTF-8 is held as a text with surrogate escapes (PEP 383), so that no byte of it is lost.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from operator import methodcaller
from typing import Any, Final, Protocol

import msgspec

from milepost.schemas.wire import Headers

UNKNOWN_NAME: Final = "\ud800"
"""Stands for a name that the client would not give out. No surrogate escape is spelled like this."""

_encode = msgspec.json.Encoder().encode
_pack = msgspec.msgpack.Encoder().encode
_decode = msgspec.json.Decoder().decode


# For a name that is not UTF-8 the client returns a result and leaves an exception set. An ordinary call, once the interpreter has
# specialised it, does not look for that, and the hole in the result crashes it; this call always looks.
_headers: Final = methodcaller("headers")


class HasHeaders(Protocol):
    """What is used of confluent_kafka's message."""

    def headers(self) -> Any: ...


def read_headers(message: HasHeaders) -> tuple[Headers, bool]:
    """All headers in order, and whether each name is UTF-8: where one is not, the client fails at the first call."""
    try:
        return _headers(message) or (), True
    except (SystemError, ValueError) as error:
        names = [cause.object for cause in _causes(error) if isinstance(cause, UnicodeDecodeError)]
    try:
        found: Any = _headers(message)
    except (SystemError, ValueError):
        return ((UNKNOWN_NAME, None),), False
    return _mended(found or [], iter(names[-1:])), False


def is_readable(headers: Headers) -> bool:
    """Whether all names are UTF-8."""
    return all(name.isascii() or not _has_surrogate(name) for name, _ in headers)


def headers_document(headers: Headers) -> bytes:
    """Headers as JSON: `[name, value]` in order, each a text, null, or `{"base64": …}` where it is not UTF-8."""
    return _encode([[shown_bytes(_name_bytes(name)), shown_bytes(value)] for name, value in headers])


def headers_of(document: bytes) -> Headers:
    """What `headers_document` was made from."""
    pairs = [(_hidden(name), _hidden(value)) for name, value in _decode(document)]
    return [
        (name.decode("utf-8", "surrogateescape") if name is not None else UNKNOWN_NAME, value) for name, value in pairs
    ]


def raw_names(headers: Headers) -> list[tuple[bytes | None, bytes | None]]:
    """Headers with the bytes of their names, None for one that is unknown."""
    return [(_name_bytes(name), value) for name, value in headers]


def packed(headers: Headers) -> bytes:
    """Headers as MessagePack, in order: names as strings, as bytes where they are not UTF-8, nil where the name is unknown."""
    try:
        return _pack(headers)
    except UnicodeEncodeError:
        return _pack(raw_names(headers))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _mended(found: list[Any], names: Iterator[bytes]) -> Headers:
    """The client leaves a hole where a name is not UTF-8, and touching it would crash: only `repr` shows it safely."""
    mended: list[tuple[str, bytes | None]] = []
    for pair in found:
        if repr(pair).startswith("(<NULL>"):
            name = next(names, None)
            mended.append((name.decode("utf-8", "surrogateescape") if name is not None else UNKNOWN_NAME, pair[1]))
        else:
            mended.append((pair[0], pair[1]))
    return mended


def _has_surrogate(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


def _name_bytes(name: str) -> bytes | None:
    return name.encode("utf-8", "surrogateescape") if name != UNKNOWN_NAME else None


def shown_bytes(value: bytes | None) -> object:
    """Bytes for people and for JSON: a text, null, or `{"base64": …}` where they are not UTF-8."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def _hidden(value: Any) -> bytes | None:
    if value is None or isinstance(value, str):
        return value.encode() if value is not None else None
    return base64.b64decode(value["base64"])
