"""What a valid state is: every oddity by name, both ways, with the place and the words of each refusal."""

import json
import sys
import time
from collections.abc import Callable

import pytest

from milepost.schemas import json_text
from milepost.schemas.json_scan import scan
from milepost.schemas.json_text import MAX_DEPTH, MAX_STATE_BYTES, JsonFault, find_fault

VALID = {
    "object": b'{"$type": "a", "b": [1, {"c": null}]}',
    "array in array": b"[[], [[]], {}, [{}]]",
    "string at the top": b'"a"',
    "number at the top": b"12",
    "true at the top": b"true",
    "false at the top": b"false",
    "null at the top": b"null",
    "white space around": b" \t\r\n{ } \n\r\t",
    "white space inside": b'{ "a" : [ 1 , 2 ] , "b" : { } }',
    "lone high surrogate escape": b'"\\ud800"',
    "lone low surrogate escape": b'"\\uDFFF"',
    "surrogate escapes in the wrong order": b'"\\udc00\\ud800"',
    "surrogate escape before another escape": b'"\\ud800\\u0041"',
    "lone surrogate escape in a name": b'{"\\ud800":1}',
    "surrogate pair": b'"\\uD83D\\uDE00"',
    "NUL escape": b'"\\u0000"',
    "every escape": b'"\\" \\\\ \\/ \\b \\f \\n \\r \\t \\u00e9"',
    "escaped backslash before the end": b'"\\\\"',
    "duplicate names": b'{"a":1,"a":2}',
    "empty name": b'{"":1}',
    "thirty digits": b"123456789012345678901234567890",
    "ten thousand digits": b"1" * 10_000,
    "1E400": b"1E400",
    "-1e999999999999": b"-1e999999999999",
    "minus zero": b"-0",
    "1.0": b"1.0",
    "exponents": b"[0e0, 1e00, 1E+05, 1e-5, -0.0e-0]",
    "DEL in a string": b'"\x7f"',
    "line separators in a string": '"\u2028\u2029"'.encode(),
    "noncharacter in a string": '"\uffff\U0010ffff"'.encode(),
    "byte order mark in a string": '"\ufeff"'.encode(),
    "emoji": '"\U0001f600"'.encode(),
    "nesting of 5,000 arrays": b"[" * 5000 + b"]" * 5000,
    "nesting of 5,000 objects": b'{"a":' * 5000 + b"1" + b"}" * 5000,
    "nesting of 5,000, mixed": b'[{"a":' * 2500 + b"0" + b"}]" * 2500,
    "brackets in strings nest nothing": b'["' + b"[" * 20_000 + b'", "\\"' + b"{" * 20_000 + b'\\\\"]',
}

END = "the end of the text"
VALUE_OR_END = "a value or ']'"
NAME_OR_END = "a name in quotes or '}'"
HEX = "four hexadecimal digits after \\u"
ESCAPE = 'one of "\\/bfnrtu after a backslash'

REFUSED = {
    # name: (text, code, offset, line, column, expected, found)
    "empty": (b"", "empty", 0, 1, 1, "a value", END),
    "white space only": (b" \n\t ", "empty", 4, 2, 3, "a value", END),
    "NaN": (b'{"a": 1,\n    "b": NaN}', "not_json", 18, 2, 10, "a value", "NaN"),
    "Infinity": (b"[Infinity]", "not_json", 1, 1, 2, VALUE_OR_END, "Infinity"),
    "-Infinity": (b"-Infinity", "not_json", 1, 1, 2, "a digit", "Infinity"),
    "undefined": (b"undefined", "not_json", 0, 1, 1, "a value", "undefined"),
    "True": (b"True", "not_json", 0, 1, 1, "a value", "True"),
    "half a literal": (b"[1,tru]", "not_json", 3, 1, 4, "a value", "tru"),
    "literal that goes on": (b"nullx", "not_json", 4, 1, 5, END, "x"),
    "word of megabytes": (b"n" * 100, "not_json", 0, 1, 1, "a value", "n" * 24),
    "byte order mark": (b"\xef\xbb\xbf{}", "not_json", 0, 1, 1, "a value", "a byte order mark (U+FEFF)"),
    "raw NUL": (b'"a\x00"', "not_json", 2, 1, 3, "the escape \\u0000", "a NUL byte"),
    "NUL after the text": (b"1\x00", "not_json", 1, 1, 2, END, "a NUL byte"),
    "raw tab": (b'"\t"', "not_json", 1, 1, 2, "the escape \\u0009", "the control character 0x09"),
    "raw line feed": (b'["a\nb"]', "not_json", 3, 1, 4, "the escape \\u000a", "the control character 0x0A"),
    "raw 0x1F in a name": (b'{"\x1f":1}', "not_json", 2, 1, 3, "the escape \\u001f", "the control character 0x1F"),
    "form feed as white space": (b"\x0c1", "not_json", 0, 1, 1, "a value", "the control character 0x0C"),
    "vertical tab as white space": (b"1\x0b", "not_json", 1, 1, 2, END, "the control character 0x0B"),
    "DEL as white space": (b"1\x7f", "not_json", 1, 1, 2, END, "the control character 0x7F"),
    "no-break space as white space": (b"\xc2\xa01", "not_json", 0, 1, 1, "a value", "U+00A0"),
    "overlong NUL": (b'"\xc0\x80"', "invalid_utf8", 1, 1, 2, "UTF-8", "byte 0xC0 (an overlong sequence)"),
    "overlong of three": (b'"\xe0\x80\xaf"', "invalid_utf8", 1, 1, 2, "UTF-8", "byte 0xE0 (an overlong sequence)"),
    "overlong of four": (b'"\xf0\x80\x80\xaf"', "invalid_utf8", 1, 1, 2, "UTF-8", "byte 0xF0 (an overlong sequence)"),
    "encoded surrogate": (b'"\xed\xa0\x80"', "invalid_utf8", 1, 1, 2, "UTF-8", "byte 0xED (an encoded surrogate)"),
    "past U+10FFFF": (b'"\xf4\x90\x80\x80"', "invalid_utf8", 1, 1, 2, "UTF-8", "byte 0xF4 (beyond U+10FFFF)"),
    "0xFF": (b'["a",\n"\xff"]', "invalid_utf8", 7, 2, 2, "UTF-8", "byte 0xFF (invalid start byte)"),
    "cut character": (b'"\xe2\x82', "invalid_utf8", 1, 1, 2, "UTF-8", "byte 0xE2 (unexpected end of data)"),
    "Latin-1": (b'"\xe9t\xe9"', "invalid_utf8", 1, 1, 2, "UTF-8", "byte 0xE9 (invalid continuation byte)"),
    "UTF-16": (b"\xff\xfe1\x00", "invalid_utf8", 0, 1, 1, "UTF-8", "byte 0xFF (invalid start byte)"),
    "trailing comma in an array": (b"[1,]", "not_json", 3, 1, 4, "a value", "']'"),
    "trailing comma after a container": (b"[[],]", "not_json", 4, 1, 5, "a value", "']'"),
    "trailing comma in an object": (b'{"a":1,}', "not_json", 7, 1, 8, "a name in quotes", "'}'"),
    "trailing comma after the text": (b"1,", "not_json", 1, 1, 2, END, "','"),
    "comma first": (b"[,1]", "not_json", 1, 1, 2, VALUE_OR_END, "','"),
    "two commas": (b"[1,,2]", "not_json", 3, 1, 4, "a value", "','"),
    "no comma": (b"[1 2]", "not_json", 3, 1, 4, "',' or ']'", "'2'"),
    "no comma between members": (b'{"a":1 "b":2}', "not_json", 7, 1, 8, "',' or '}'", "'\"'"),
    "no colon": (b'{"a" 1}', "not_json", 5, 1, 6, "':'", "'1'"),
    "no value": (b'{"a":}', "not_json", 5, 1, 6, "a value", "'}'"),
    "name without quotes": (b"{a:1}", "not_json", 1, 1, 2, NAME_OR_END, "a"),
    "number as a name": (b"{1:1}", "not_json", 1, 1, 2, NAME_OR_END, "'1'"),
    "array as a name": (b"{[]:1}", "not_json", 1, 1, 2, NAME_OR_END, "'['"),
    "single quotes": (b"['a']", "not_json", 1, 1, 2, VALUE_OR_END, "'''"),
    "line comment": (b'{"a":1} // b', "not_json", 8, 1, 9, END, "a comment"),
    "block comment": (b"[/* a */]", "not_json", 1, 1, 2, VALUE_OR_END, "a comment"),
    "hash comment": (b"# a\n1", "not_json", 0, 1, 1, "a value", "'#'"),
    "two texts": (b'{"a":1}\n{"a":2}', "not_json", 8, 2, 1, END, "'{'"),
    "two numbers": (b"1 2", "not_json", 2, 1, 3, END, "'2'"),
    "two strings": (b'"a""b"', "not_json", 3, 1, 4, END, "'\"'"),
    "open array": (b"[1", "not_json", 2, 1, 3, "',' or ']'", END),
    "open object": (b'{"a":1', "not_json", 6, 1, 7, "',' or '}'", END),
    "object cut after the name": (b'{"a"', "not_json", 4, 1, 5, "':'", END),
    "closed by the wrong bracket": (b'{"a":[1}', "not_json", 7, 1, 8, "',' or ']'", "'}'"),
    "closed twice": (b"[]]", "not_json", 2, 1, 3, END, "']'"),
    "open string": (b'["a', "not_json", 3, 1, 4, "the end of the string that begins at byte 1", END),
    "string that ends in an escaped quote": (
        b'"\\"',
        "not_json",
        3,
        1,
        4,
        "the end of the string that begins at byte 0",
        END,
    ),
    "hex escape of C": (b'"\\x41"', "not_json", 2, 1, 3, ESCAPE, "x41"),
    "big U escape": (b'"\\U0041"', "not_json", 2, 1, 3, ESCAPE, "U0041"),
    "escaped single quote": (b'"\\\'"', "not_json", 2, 1, 3, ESCAPE, "'''"),
    "escaped line end": (b'"\\\n"', "not_json", 2, 1, 3, ESCAPE, "the control character 0x0A"),
    "text cut after a backslash": (b'"\\', "not_json", 2, 1, 3, ESCAPE, END),
    "letter in a hex escape": (b'"\\u12g4"', "not_json", 5, 1, 6, HEX, "g4"),
    "short hex escape": (b'"\\u123"', "not_json", 6, 1, 7, HEX, "'\"'"),
    "broken escape in a name": (b'{"\\u12":1}', "not_json", 6, 1, 7, HEX, "'\"'"),
    "leading zero": (b"01", "not_json", 1, 1, 2, END, "'1'"),
    "leading zero after minus": (b"[-01]", "not_json", 3, 1, 4, "',' or ']'", "'1'"),
    "no digit after the point": (b"[1.]", "not_json", 3, 1, 4, "a digit", "']'"),
    "exponent after the point": (b"1.e5", "not_json", 2, 1, 3, "a digit", "e5"),
    "no digit before the point": (b".5", "not_json", 0, 1, 1, "a value", "'.'"),
    "point first in an item": (b"[1,.5]", "not_json", 3, 1, 4, "a value", "'.'"),
    "point after a space": (b"[1 .5]", "not_json", 3, 1, 4, "',' or ']'", "'.'"),
    "no digit in the exponent": (b"1e", "not_json", 2, 1, 3, "a digit", END),
    "no digit in the exponent of a fraction": (b"1.5e", "not_json", 4, 1, 5, "a digit", END),
    "no digit after the sign of the exponent": (b"1e+", "not_json", 3, 1, 4, "a digit", END),
    "two points": (b"1.1.1", "not_json", 3, 1, 4, END, "'.'"),
    "two exponents": (b"1e1e1", "not_json", 3, 1, 4, END, "e1"),
    "point in the exponent": (b"1e1.5", "not_json", 3, 1, 4, END, "'.'"),
    "minus alone": (b"-", "not_json", 1, 1, 2, "a digit", END),
    "minus and a space": (b"- 1", "not_json", 1, 1, 2, "a digit", "' '"),
    "plus": (b"+1", "not_json", 0, 1, 1, "a value", "'+'"),
    "hexadecimal number": (b"0x1F", "not_json", 1, 1, 2, END, "x1F"),
    "number with underscores": (b"1_000", "not_json", 1, 1, 2, END, "_000"),
    "number with a letter": (b"[1a]", "not_json", 2, 1, 3, "',' or ']'", "a"),
    "5,001 arrays": (b"[" * 5001 + b"]" * 5001, "too_deep", 5000, 1, 5001, "a nesting of at most 5000", "5001"),
    "5,001 objects": (
        b'{"":' * 5001 + b"1" + b"}" * 5001,
        "too_deep",
        20_000,
        1,
        20_001,
        "a nesting of at most 5000",
        "5001",
    ),
}


@pytest.mark.parametrize("text", VALID.values(), ids=VALID.keys())
def test_accepted(text: bytes) -> None:
    assert find_fault(text) is None
    assert scan(text, MAX_DEPTH) is None


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED.keys())
def test_refused_with_the_place_and_the_reason(case: tuple[object, ...]) -> None:
    text, *fault = case
    assert isinstance(text, bytes)
    assert find_fault(text) == JsonFault(*fault)  # type: ignore[arg-type]


def test_a_fault_reads_as_one_sentence() -> None:
    fault = find_fault(b'{"a": 1,\n    "b": NaN}')
    assert str(fault) == "at byte 18 (line 2, column 10): expected a value, found NaN"


def test_columns_count_bytes_and_only_a_line_feed_ends_a_line() -> None:
    fault = find_fault('[\r"é",\n"é", x]'.encode())
    assert fault is not None
    assert (fault.offset, fault.line, fault.column) == (14, 2, 7)


def test_a_state_over_the_limit_is_refused_with_both_numbers() -> None:
    text = b'"' + b"a" * (MAX_STATE_BYTES - 2) + b'"'
    assert find_fault(text) is None
    fault = find_fault(text + b" ")
    assert fault is not None
    assert (fault.code, fault.offset) == ("too_large", MAX_STATE_BYTES)
    assert (fault.expected, fault.found) == ("at most 16777216 bytes", "16777217 bytes")


# ---- the limit of depth is ours, not the interpreter's ----


def test_depth_is_refused_where_msgspec_would_take_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in Python 3.13, where msgspec goes down nearly 10,000 levels."""
    monkeypatch.setattr(json_text, "_skip", lambda text: text)
    fault = find_fault(b"[" * 5001 + b"]" * 5001)
    assert fault is not None
    assert fault.code == "too_deep"


def test_no_text_drives_the_recursion_of_msgspec_past_the_limit() -> None:
    """An application may raise the interpreter's limit; ten million levels on the C stack would then be the end of it."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10**9)
    try:
        fault = find_fault(b"[" * 10_000_000)
    finally:
        sys.setrecursionlimit(limit)
    assert fault is not None
    assert (fault.code, fault.offset) == ("too_deep", MAX_DEPTH)


def test_wide_states_of_megabytes_take_the_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_scan(text: bytes, max_depth: int) -> None:
        raise AssertionError("the exact path ran")

    monkeypatch.setattr(json_text, "scan", no_scan)
    item = {"type": "message", "content": 'a "quoted" [bracket', "parts": [{"n": 1}, []], "path": "C:\\"}
    assert find_fault(json.dumps([item] * 20_000).encode()) is None


# ---- hostile texts: linear, so that one record can't hold a consumer up ----

TEN_MB = 10_000_000
HOSTILE: dict[str, Callable[[], bytes]] = {
    "opening brackets": lambda: b"[" * TEN_MB,
    "closing brackets": lambda: b"]" * TEN_MB,
    "open objects": lambda: b'{"":' * (TEN_MB // 4),
    "quotes and backslashes": lambda: b'"\\' * (TEN_MB // 2),
    "quotes": lambda: b'"' * TEN_MB,
    "escaped quotes": lambda: b'"' + b'\\"' * (TEN_MB // 2),
    "backslashes": lambda: b'"' + b"\\" * TEN_MB,
    "lone surrogates": lambda: b'"' + b"\\ud800" * (TEN_MB // 6),
    "digits": lambda: b"1" * TEN_MB + b".",
    "zeros": lambda: b"0" * TEN_MB,
    "exponent": lambda: b"1e" + b"0" * TEN_MB + b"e",
    "items": lambda: b"[" + b"1," * (TEN_MB // 2),
    "members": lambda: b"{" + b'"":1,' * (TEN_MB // 5),
    "name": lambda: b'{"' + b"a" * TEN_MB + b'":[',
    "white space": lambda: b" " * TEN_MB,
    "lines": lambda: b"\n" * TEN_MB,
    "white space between": lambda: b"[1" + b" " * TEN_MB + b"x",
    "UTF-8 broken at the end": lambda: b'"' + "é".encode() * (TEN_MB // 2) + b"\xff",
    # dense in containers: each one is a step in Python, so a tenth of the size for the same limit
    "empty arrays": lambda: b"[" + b"[]," * (TEN_MB // 30),
    "full arrays": lambda: b"[" + b"[1]," * (TEN_MB // 40),
    "combs": lambda: b"[" + (b"[" * 4990 + b"]" * 4990 + b",") * (TEN_MB // 99_800),
}


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_texts_are_refused_in_linear_time(make: Callable[[], bytes]) -> None:
    text = make()
    start = time.process_time()
    fault = find_fault(text)
    seconds = time.process_time() - start
    assert fault is not None
    assert seconds < 2


def test_ten_megabytes_of_digits_are_a_number() -> None:
    assert find_fault(b"1" * TEN_MB) is None
    assert scan(b"1" * TEN_MB, MAX_DEPTH) is None
