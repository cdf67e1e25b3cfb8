"""What a valid state is: the one place that decides it, for the publisher and for the consumer alike.

A state is what Postgres' `json` type accepts: RFC 8259 in UTF-8, without a byte order mark or a NUL byte, with any
white space around it. On top of that it has at most MAX_STATE_BYTES and nests at most MAX_DEPTH deep. Both limits are
the log's own: whether a state is in the view must not hang on a server's `max_stack_depth`. docs/json.md has the rule
in full.

The common case is decided by two checks in C: that the bytes are UTF-8, and that msgspec can skip over them as one
value. What the two accept, the server accepts. What they refuse may still be a state (msgspec takes no lone surrogates,
and stops at the interpreter's own depth of recursion), and is decided by the exact path, `json_scan`.
"""

import re
from array import array
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

import msgspec

from milepost.schemas.json_scan import scan
from milepost.schemas.json_tokens import Code, Refusal

MAX_STATE_BYTES: Final = 16 * 1024 * 1024
MAX_DEPTH: Final = 5000  # containers open at one time; the stock server stops somewhere past 13,000

_LEAST_TOO_DEEP: Final = 2 * (MAX_DEPTH + 1)  # bytes: a level takes two
_skip = msgspec.json.Decoder(msgspec.Raw).decode


@dataclass(frozen=True, slots=True)
class JsonFault:
    """Why a text is no valid state, and where.

    `offset` counts bytes from 0. `line` counts from 1 and is ended by a line feed. `column` counts bytes, not
    characters, from 1. `code` with `state_` before it is the reason in quarantine.
    """

    code: Code
    offset: int
    line: int
    column: int
    expected: str
    found: str

    def __str__(self) -> str:
        where = f"at byte {self.offset} (line {self.line}, column {self.column})"
        return f"{where}: expected {self.expected}, found {self.found}"


def find_fault(text: bytes) -> JsonFault | None:
    """The first thing for which `text` is no valid state; None if it is one. Never raises, keeps nothing.

    Size is judged first, then UTF-8 over the whole text, then the grammar and the depth from left to right.
    """
    if len(text) > MAX_STATE_BYTES:
        expected = f"at most {MAX_STATE_BYTES} bytes"
        return _fault(text, Refusal("too_large", MAX_STATE_BYTES, expected, f"{len(text)} bytes"))
    if _is_surely_valid(text):
        return None
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return _fault(text, _broken_utf8(text, error))
    refusal = scan(text, MAX_DEPTH)
    return None if refusal is None else _fault(text, refusal)


def _is_surely_valid(text: bytes) -> bool:
    """The fast path: True only for a valid state; False for a text that a check refuses, which may still be valid.

    The depth is bounded before msgspec sees the text. Its own limit is the interpreter's (near 1,000 levels in Python
    3.11, near 10,000 in 3.13, and whatever an application gives to `sys.setrecursionlimit`), so it can't be the rule;
    and no text of megabytes can drive its recursion to the end of the C stack.
    """
    try:
        if not text.isascii():
            text.decode()
        if len(text) >= _LEAST_TOO_DEEP and _depth_bound(text) > MAX_DEPTH:
            return False
        _skip(text)
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError):
        return False
    return True


# ---- depth ----

_BRACKETS: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")  # as signed bytes +1 and -1
_NEITHER_BRACKET_NOR_QUOTE: Final = bytes(set(range(256)) - set(b'[]{}"'))


def _depth_bound(text: bytes) -> int:
    """The depth of a JSON text, 1 where it has no container; of other text at least the depth before its first fault.

    Linear, and nearly all of it in C. While a text is sound its backslashes stand in strings: without the pairs of them
    and the escaped quotation marks, every other piece between quotation marks is a string. Taking out two adjacent
    quotation marks leaves each bracket on its side of them; taking out the innermost containers leaves one level less.
    """
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    outline = text.translate(_BRACKETS, _NEITHER_BRACKET_NOR_QUOTE).replace(b'""', b"")
    outside_strings = b"".join(outline.split(b'"')[::2]).replace(b"\x01\xff", b"")
    return 1 + max(accumulate(array("b", outside_strings), initial=0))


# ---- faults ----


def _fault(text: bytes, refusal: Refusal) -> JsonFault:
    code, offset, expected, found = refusal
    line = text.count(b"\n", 0, offset) + 1
    column = offset - text.rfind(b"\n", 0, offset)
    return JsonFault(code, offset, line, column, expected, found)


_NOT_UTF8: Final = (  # RFC 3629 section 4: sequences of the right form that are no characters
    (re.compile(rb"[\xc0\xc1]|\xe0[\x80-\x9f]|\xf0[\x80-\x8f]"), "an overlong sequence"),
    (re.compile(rb"\xed[\xa0-\xbf]"), "an encoded surrogate"),
    (re.compile(rb"\xf4[\x90-\xbf]|[\xf5-\xf7]"), "beyond U+10FFFF"),
)


def _broken_utf8(text: bytes, error: UnicodeDecodeError) -> Refusal:
    """Where the first sequence begins that is no character, and of which kind it is."""
    kind = next((kind for pattern, kind in _NOT_UTF8 if pattern.match(text, error.start)), error.reason)
    return Refusal("invalid_utf8", error.start, "UTF-8", f"byte 0x{text[error.start]:02X} ({kind})")
