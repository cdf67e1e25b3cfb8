"""States that something on the way might spell differently, by name. Each must come back as it was, byte for byte."""

from __future__ import annotations

from typing import Final

from milepost.schemas import MAX_DEPTH, MAX_STATE_BYTES


def _full(start: bytes, filling: bytes, end: bytes) -> bytes:
    """A state of exactly 16 MiB, with white space at its end where the filling leaves some room."""
    return (start + filling * ((MAX_STATE_BYTES - len(start) - len(end)) // len(filling)) + end).ljust(MAX_STATE_BYTES)


SMALL: Final[dict[str, bytes]] = {
    "$type first": b'{"$type":"Acme.State, Acme","b":1,"a":2}',
    "$type last": b'{"b":1,"a":2,"$type":"Acme.State, Acme"}',
    "$type twice": b'{"$type":0,"a":1,"$type":"again"}',
    "keys out of order": b'{"zz":1,"b":2,"aaa":3,"a":4,"B":5,"10":6,"2":7}',
    "keys repeated": b'{"a":1,"a":{"a":2,"a":3},"a":1}',
    "keys empty": b'{"":0,"":1," ":2}',
    "white space inside": b'{ "a" :  [ 1 ,2,   3 ] ,"b":{ } }',
    "white space around": b" \t\r\n {} \n\r\t ",
    "line feed at the end": b'{"a":1}\n',
    "CRLF": b'{\r\n  "a": 1,\r\n  "b": [\r\n  ]\r\n}\r\n',
    "tabs": b'{\t"a":\t1\t}',
    "escapes in three ways": '["é", "\\u00e9", "\\u00E9", "e\\u0301", "e\u0301"]'.encode(),
    "slashes in three ways": b'["/", "\\/", "\\u002f", "\\u002F"]',
    "quotes and backslashes": b'["\\"", "\\u0022", "\\\\", "\\u005c", "\\\\\\""]',
    "control characters escaped": b'["\\b\\f\\n\\r\\t", "\\u0008\\u000c\\u000a\\u000d\\u0009", "\\u001f", "\\u007f", "\x7f"]',
    "NUL escaped": b'{"a\\u0000b":"\\u0000"}',
    "lone surrogates": b'["\\ud800", "\\uDC00\\ud83d", "a\\udfffb"]',
    "large numbers": b"[123456789012345678901234567890, 9007199254740993, 18446744073709551616, -9223372036854775809]",
    "a number of 10,000 digits": b"9" * 10_000,
    "odd numbers": b"[1.0, 1.00, 1E5, 1e+05, 1e-05, -0, -0.0, 0e0, 0.1, 0.10000000000000000001, 1E400, 1e-400, 5e-324]",
    "money": b'{"price":19.90,"total":1234567890.10,"rate":0.30000000000000004}',
    "emoji": '["😀", "\\ud83d\\ude00", "👩‍👩‍👧‍👦", "🇵🇱", "☺\ufe0f"]'.encode(),
    "right to left": '{"שלום":"مرحبا \u202eabc\u202c \u200f\u200e"}'.encode(),
    "combining": '["ﷺ", "Å", "A\u030a", "\u1e9b\u0323", "각", "\u1100\u1161\u11a8"]'.encode(),
    "line separators": '["\u2028", "\u2029", "\u0085", "\u00a0", "\u3000"]'.encode(),
    "non-characters": '["\ufffe", "\uffff", "\ufeff", "\U0010ffff", "\ufffd"]'.encode(),
    "base64": b'"eyIkdHlwZSI6MH0="',
    "base64 without quotes": b"1234",
    "hexadecimal bytea": b'"\\\\x7b7d"',
    "SQL": b'"\'); drop schema milepost cascade; --"',
    "SQL with dollars": b'{"$1":"%s","$$":"%(a)s","{}":"{0}"}',
    "COPY": b'["\\\\.", "\\\\N", "a\\tb", "\\\\n"]',
    "an array of Postgres": b'"{1,2,NULL}"',
    "JSON in a string": b'"{\\"a\\": \\"\\\\u0000\\"}"',
    "HTML": b'"<script>alert(1)</script>&amp;&#0;"',
    "percent": b'"%00%E9%25 100%"',
    "null": b"null",
    "true": b" true",
    "zero": b"0",
    "minus zero": b"-0",
    "an empty string": b'""',
    "empty containers": b"[{},[],{ },[ ]]",
    "deep": b"[" * MAX_DEPTH + b"]" * MAX_DEPTH,
}

LARGE: Final[dict[str, bytes]] = {
    "16 MiB of backslashes": _full(b'"', b"\\\\", b'"'),
    "16 MiB of emoji": _full(b'["', "😀".encode(), b'"]'),
    "16 MiB of members": _full(b"[", b'{"$type":0,"b":1.0,"a":"\\u0000"},', b"1]"),
    "16 MiB of white space": _full(b"{", b" \r\n\t", b"}"),
}
