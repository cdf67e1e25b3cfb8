"""The exact path: reads a JSON text to its end, or to the byte where it stops being one.

The grammar is RFC 8259 as the server's `json` type reads it: objects and arrays (sections 4, 5), numbers of any length
(section 6), strings in which `\\u` takes any four hexadecimal digits and so a lone surrogate too (section 7), and white
space that is only space, tab, line feed and carriage return (section 2). The text is known to be UTF-8.

It never recurses: the containers around the one being read are a list. It is linear in time: the patterns are
possessive (they never give back what they have read), a match starts where the last one ended, and a run of flat
members is one match.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from milepost.schemas.json_tokens import END, FLAT, STRING, WS, Refusal, Stage, refuse

_ARRAY: Final = ord("[")
_OBJECT: Final = ord("{")

_COMMA: Final = rb"," + WS
_NAME: Final = STRING + WS + rb":" + WS  # of a member of an object, with the colon
_ITEM: Final = FLAT + WS + _COMMA  # a flat value with the comma that follows it
_MEMBER: Final = _NAME + _ITEM
_LAST: Final = rb"(?:(" + FLAT + rb")" + WS + rb")?+"  # a flat value that no comma follows


@dataclass(frozen=True, slots=True)
class Segment:
    """A pattern that matches anywhere and reads as far as it can without opening or closing a container.

    The last group that took part in a match (`lastindex`, 0 for none) is the index of the stage that was reached.
    """

    match: Callable[[bytes, int], re.Match[bytes] | None]
    stages: tuple[Stage, ...]


@dataclass(frozen=True, slots=True)
class Container:
    """The two segments that read a container: after its opening bracket, and after a container inside it has closed."""

    closer: int
    begin: Segment
    go_on: Segment


def _array() -> Container:
    fresh, comma = Stage(True, True, False, "a value or ']'"), Stage(False, True, False, "a value")
    done = Stage(True, False, False, "',' or ']'")
    begin = WS + rb"(?:(" + _ITEM + rb")(?:" + _ITEM + rb")*+)?+" + _LAST
    go_on = WS + rb"(?:(" + _COMMA + rb")(?:" + _ITEM + rb")*+" + _LAST + rb")?+"
    stages = (comma, done)
    return Container(ord("]"), _segment(begin, fresh, *stages), _segment(go_on, done, *stages))


def _object() -> Container:
    fresh, comma = Stage(True, False, True, "a name in quotes or '}'"), Stage(False, False, True, "a name in quotes")
    name, done = Stage(False, True, False, "a value"), Stage(True, False, False, "',' or '}'")
    last = rb"(?:(" + _NAME + rb")" + _LAST + rb")?+"
    begin = WS + rb"(?:(" + _MEMBER + rb")(?:" + _MEMBER + rb")*+)?+" + last
    go_on = WS + rb"(?:(" + _COMMA + rb")(?:" + _MEMBER + rb")*+" + last + rb")?+"
    stages = (comma, name, done)
    return Container(ord("}"), _segment(begin, fresh, *stages), _segment(go_on, done, *stages))


def _text() -> Container:
    fresh, done = Stage(False, True, False, "a value"), Stage(True, False, False, "the end of the text")
    return Container(END, _segment(WS + _LAST, fresh, done), _segment(WS, done))


def _segment(pattern: bytes, *stages: Stage) -> Segment:
    return Segment(re.compile(pattern).match, stages)


_TEXT: Final = _text()
_CONTAINERS: Final = {_ARRAY: _array(), _OBJECT: _object()}


def scan(text: bytes, max_depth: int) -> Refusal | None:
    """The first thing in `text`, which is UTF-8, that is against the rule; None where there is nothing.

    `max_depth` is the largest number of containers that may be open at one time.
    """
    size = len(text)
    outer: list[Container] = []
    container = _TEXT
    segment, start = container.begin, 0
    while match := segment.match(text, start):
        at, stage = match.end(), segment.stages[match.lastindex or 0]
        byte = text[at] if at < size else END
        if stage.closes and byte == container.closer:
            if not outer:
                return None
            container = outer.pop()
            segment = container.go_on
        elif stage.opens and byte in (_ARRAY, _OBJECT):
            if len(outer) == max_depth:
                return Refusal("too_deep", at, f"a nesting of at most {max_depth}", str(max_depth + 1))
            outer.append(container)
            container = _CONTAINERS[byte]
            segment = container.begin
        else:
            ends_in_value = stage.closes and match.lastindex and match.end(match.lastindex) == at
            return refuse(text, at, stage, match[match.lastindex or 0] if ends_in_value else b"")
        start = at + 1
    raise AssertionError("a segment matches anywhere")
