"""The tokens of JSON as patterns over bytes, and what is wrong with a token that is none of them.

Only a text that is refused comes to the functions here. They look again at the one token in which the scan stopped, so
that the refusal names the byte that breaks the rule and not the beginning of a string of megabytes.
"""

import re
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

END: Final = -1  # stands for the byte after the last one
WS: Final = rb"[ \t\n\r]*+"
_PLAIN: Final = rb'[^"\\\x00-\x1f]*+'
_STRING_SO_FAR: Final = rb'"' + _PLAIN + rb'(?:\\(?>["\\/bfnrt]|u[0-9A-Fa-f]{4})' + _PLAIN + rb")*+"
STRING: Final = _STRING_SO_FAR + rb'"'
NUMBER: Final = rb"-?+(?>0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?+[0-9]++)?+"
FLAT: Final = rb"(?>" + STRING + rb"|" + NUMBER + rb"|true|false|null)"  # a value that is no container

_string_and_space: Final = re.compile(STRING + WS)
_string_so_far: Final = re.compile(_STRING_SO_FAR)
_word: Final = re.compile(rb"[A-Za-z_$][A-Za-z0-9_$]{0,23}")
_hex_digits: Final = re.compile(rb"[0-9A-Fa-f]{0,4}")
_QUOTE, _MINUS, _BACKSLASH = b'"-\\'
_TAIL_OF_NUMBER: Final = frozenset(b".eE")
_HEAD_OF_NUMBER: Final = frozenset(b"-0123456789")

Code = Literal["empty", "invalid_utf8", "not_json", "too_deep", "too_large"]


class Refusal(NamedTuple):
    """Why a text is refused: the kind of reason, the offset of the byte (from 0), what had to be there and what is."""

    code: Code
    offset: int
    expected: str
    found: str


@dataclass(frozen=True, slots=True)
class Stage:
    """How far into a container the scan has come, and so what may come next."""

    closes: bool  # the container may end
    opens: bool  # a value may begin
    names: bool  # the name of a member may begin
    expected: str  # the same in words


def refuse(text: bytes, at: int, stage: Stage, value: bytes) -> Refusal:
    """What is wrong at `at`, where the stage allows no such token.

    `value` is the flat value that ends just there, and empty where none does.
    """
    byte = text[at] if at < len(text) else END
    if byte == _QUOTE and (stage.opens or stage.names):
        string = _string_and_space.match(text, at)
        if string is None:
            return _broken_string(text, at)
        return _not_json(text, string.end(), "':'")  # it is a name, since a value would have been read
    if byte == _MINUS and stage.opens:
        return _not_json(text, at + 1, "a digit")
    if byte in _TAIL_OF_NUMBER and value and value[0] in _HEAD_OF_NUMBER:
        return _broken_number(text, at, stage, value)
    if byte == END and not text.strip(b" \t\n\r"):
        return Refusal("empty", at, stage.expected, found_at(text, at))
    return _not_json(text, at, stage.expected)


def _broken_string(text: bytes, start: int) -> Refusal:
    """RFC 8259 section 7: a string ends in a quotation mark, and has no raw control character and no tenth escape."""
    sound = _string_so_far.match(text, start)
    at = start if sound is None else sound.end()
    if at == len(text):
        return _not_json(text, at, f"the end of the string that begins at byte {start}")
    if text[at] != _BACKSLASH:
        return _not_json(text, at, f"the escape \\u{text[at]:04x}")
    if text[at + 1 : at + 2] != b"u":
        return _not_json(text, at + 1, 'one of "\\/bfnrtu after a backslash')
    digits = _hex_digits.match(text, at + 2)
    return _not_json(text, at + 2 if digits is None else digits.end(), "four hexadecimal digits after \\u")


def _broken_number(text: bytes, at: int, stage: Stage, value: bytes) -> Refusal:
    """RFC 8259 section 6: a fraction and an exponent have at least one digit each, and come once and in this order."""
    has_exponent = b"e" in value or b"E" in value
    if has_exponent or (text[at] == ord(".") and b"." in value):
        return _not_json(text, at, stage.expected)
    signed = text[at] != ord(".") and text[at + 1 : at + 2] in (b"+", b"-")
    return _not_json(text, at + 2 if signed else at + 1, "a digit")


def _not_json(text: bytes, at: int, expected: str) -> Refusal:
    return Refusal("not_json", at, expected, found_at(text, at))


def found_at(text: bytes, at: int) -> str:
    """What stands at `at`, in words: a word as it is, a character in quotes, or the name of what can't be seen."""
    if at >= len(text):
        return "the end of the text"
    word = _word.match(text, at)
    if word is not None:
        return word[0].decode()
    if text[at] == 0:
        return "a NUL byte"
    if text[at] < 0x20 or text[at] == 0x7F:
        return f"the control character 0x{text[at]:02X}"
    if text[at : at + 2] in (b"//", b"/*"):
        return "a comment"
    character = text[at : at + 4].decode(errors="ignore")[:1]
    if character == "\ufeff":
        return "a byte order mark (U+FEFF)"
    return f"'{character}'" if character.isascii() else f"U+{ord(character):04X}"
