"""Laws of what a valid state is: our verdict is the server's, in both directions, but for the limits of depth and size.

The server is asked with the bytes as they are: a binary parameter of type `json`, which `json_recv` checks for encoding and
grammar. MILEPOST_LAW_EXAMPLES raises the number of examples per law.
"""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from milepost.schemas import json_text
from milepost.schemas.json_scan import scan
from milepost.schemas.json_text import MAX_DEPTH, find_fault

SAMPLES = [path.read_bytes() for path in sorted((Path(__file__).parents[1] / "data/samples").rglob("*.json"))]
JSON_OID = 114
BINARY = 1

EXAMPLES = int(os.environ.get("MILEPOST_LAW_EXAMPLES", "200"))

law = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
deep_law = settings(law, max_examples=max(20, EXAMPLES // 10))  # a nested text takes the exact path, 10 ms each time

# ---- texts: right, nearly right, and wrong ----

SPACE = st.sampled_from([b"", b"", b"", b" ", b"\n", b"\t", b"\r", b" \r\n\t "])
ODD_SPACE = [
    b"\x0b",
    b"\x0c",
    b"\x00",
    b"\x1e",
    b"\x7f",
    b"\xc2\xa0",
    b"\xe2\x80\xa8",
    b"\xef\xbb\xbf",
    b"\xe3\x80\x80",
]
ESCAPES = [b'\\"', b"\\\\", b"\\/", b"\\b", b"\\f", b"\\n", b"\\r", b"\\t", b"\\u0000", b"\\u00e9", b"\\uFFFF"]
SURROGATES = [b"\\ud800", b"\\uDBFF", b"\\udc00", b"\\uDFFF", b"\\ud83d\\ude00", b"\\ude00\\ud83d", b"\\\\ud800"]
BROKEN_ESCAPES = [b"\\x41", b"\\u12g4", b"\\u123", b"\\U0041", b"\\'", b"\\", b"\\u", b"\\u+123", b"\\0", b"\\u 123"]
BROKEN_UTF8 = [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xe2\x82", b"\xf4\x90\x80\x80", b"\xf0\x80\x80\x80", b"\x80"]
NUMBERS = [b"0", b"-0", b"1", b"12", b"1.0", b"-1.5e10", b"1E400", b"1e-7", b"0e0", b"9" * 30, b"0.000", b"1E+05"]
BROKEN_NUMBERS = [b"01", b"1.", b".5", b"-", b"+1", b"1e", b"1e+", b"1.e5", b"-.5", b"0x1", b"1a", b"1_0", b"1.1.1"]
WORDS = [b"true", b"false", b"null"]
BROKEN_WORDS = [
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b"True",
    b"nul",
    b"truee",
    b"undefined",
    b"//",
    b"/**/",
    b"#",
    b"'a'",
]

plain = st.text(st.characters(exclude_categories=["Cs"], exclude_characters='"\\', min_codepoint=0x20), max_size=5)
inside = st.one_of(plain.map(str.encode), st.sampled_from(ESCAPES + SURROGATES + [b"[", b"]", b"{", b"}", b"\x7f"]))
string = st.lists(inside, max_size=4).map(lambda parts: b'"' + b"".join(parts) + b'"')
scalar = st.one_of(string, st.sampled_from(NUMBERS + WORDS))


def _spaced(parts: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return st.builds(lambda before, part, after: before + part + after, SPACE, parts, SPACE)


def _containers(values: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    names = st.one_of(_spaced(string), st.just(b'"a"'))
    members = st.builds(lambda name, value: name + b":" + value, names, values)
    arrays = st.builds(
        lambda items, space: b"[" + (b",".join(items) or space) + b"]", st.lists(values, max_size=4), SPACE
    )
    objects = st.builds(
        lambda pairs, space: b"{" + (b",".join(pairs) or space) + b"}", st.lists(members, max_size=4), SPACE
    )
    return st.one_of(arrays, objects)


right = st.recursive(_spaced(scalar), lambda values: _spaced(_containers(values)), max_leaves=12)
PIECES = [b"[", b"]", b"{", b"}", b",", b":", b'"', b'"a"', b'"a":', b"\\", b" ", b"\n", b"\x01", b"\t"]
ODDITIES = [ODD_SPACE, ESCAPES, SURROGATES, BROKEN_ESCAPES, BROKEN_UTF8, NUMBERS, BROKEN_NUMBERS, WORDS, BROKEN_WORDS]
pieces = st.one_of(st.sampled_from(PIECES), *map(st.sampled_from, ODDITIES))
soup = st.lists(pieces, max_size=10).map(b"".join)


@st.composite
def mutated(draw: st.DrawFn, texts: st.SearchStrategy[bytes]) -> bytes:
    """One of `texts` with up to three bytes or pieces changed, put in, taken out, or cut off."""
    text = draw(texts)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(text)))
        kept_from = at + draw(st.sampled_from([0, 0, 1, 1, 2, 7, len(text)]))
        text = text[:at] + draw(st.one_of(pieces, st.binary(max_size=2), st.just(b""))) + text[kept_from:]
    return text


@st.composite
def nested(draw: st.DrawFn) -> bytes:
    """A sound text as deep as the limits of msgspec (near 1,000) and of a state (5,000), give or take a few levels."""
    depth = draw(st.sampled_from([990, 1000, MAX_DEPTH])) + draw(st.integers(-8, 8))
    levels = draw(
        st.lists(st.sampled_from([b"[", b'{"a":', b'[ "]}\\"",', b'{"{\\\\":[],"":']), min_size=1, max_size=4)
    )
    opening = [levels[level % len(levels)] for level in range(depth)]
    closing = [b"]" if opener[:1] == b"[" else b"}" for opener in reversed(opening)]
    return b"".join(opening) + draw(st.sampled_from([b"1", b'"["', b"\t0 "])) + b"".join(closing)


near_samples = mutated(st.sampled_from(SAMPLES))
texts = st.one_of(right, soup, mutated(right), st.binary(max_size=12))


# ---- the server's verdict ----

Verdict = Callable[[bytes], bool]


@pytest.fixture(scope="module")
def server_accepts(postgres_conninfo: str) -> Iterator[Verdict]:
    """Asks the server whether bytes are a `json`; one connection, one statement a question, nothing kept."""
    with psycopg.connect(postgres_conninfo, autocommit=True, client_encoding="utf8") as connection:
        connection.execute("set log_min_messages = 'panic'")  # the refusals are meant

        def accepts(text: bytes) -> bool:
            result = connection.pgconn.exec_params(b"select $1::json is null", [text], [JSON_OID], [BINARY])
            if result.status == psycopg.pq.ExecStatus.TUPLES_OK:
                return True
            # invalid JSON, or bytes that are no UTF-8: anything else is no verdict
            assert result.error_field(psycopg.pq.DiagnosticField.SQLSTATE) in (b"22P02", b"22021"), result.error_message
            return False

        yield accepts


def test_there_are_samples() -> None:
    assert len(SAMPLES) > 20
    assert [find_fault(text) for text in SAMPLES] == [None] * len(SAMPLES)


@law
@given(text=texts)
def test_our_verdict_is_the_servers(server_accepts: Verdict, text: bytes) -> None:
    assert (find_fault(text) is None) == server_accepts(text)


@law
@given(text=right)
def test_what_the_grammar_makes_both_accept(server_accepts: Verdict, text: bytes) -> None:
    assert find_fault(text) is None
    assert server_accepts(text)


@law
@given(text=near_samples)
def test_our_verdict_is_the_servers_near_the_samples(server_accepts: Verdict, text: bytes) -> None:
    assert (find_fault(text) is None) == server_accepts(text)


@pytest.mark.parametrize(
    "before, after", [(b'"', b'"'), (b"[", b"]"), (b"1", b""), (b"", b"1"), (b'"\\', b'"'), (b"-", b"1")]
)
def test_our_verdict_is_the_servers_for_every_byte(server_accepts: Verdict, before: bytes, after: bytes) -> None:
    candidates = [before + bytes([byte]) + after for byte in range(256)]
    assert [find_fault(text) is None for text in candidates] == [server_accepts(text) for text in candidates]


@pytest.mark.parametrize("opening, closing", [(b"[", b"]"), (b'{"a":', b"}")])
def test_the_stock_server_takes_the_deepest_state(server_accepts: Verdict, opening: bytes, closing: bytes) -> None:
    text = opening * MAX_DEPTH + b"1" + closing * MAX_DEPTH
    assert find_fault(text) is None
    assert server_accepts(text)


# ---- the two paths ----


@law
@given(text=st.one_of(texts, near_samples))
def test_the_fast_path_accepts_nothing_that_the_exact_path_refuses(text: bytes) -> None:
    try:
        text.decode()
    except UnicodeDecodeError as error:
        fault = find_fault(text)
        assert fault is not None
        assert (fault.code, fault.offset) == ("invalid_utf8", error.start)
        return
    refusal = scan(text, MAX_DEPTH)
    assert (find_fault(text) is None) == (refusal is None)
    assert refusal is None or not json_text._is_surely_valid(text)


@deep_law
@given(text=nested())
def test_the_bound_of_depth_is_the_depth_of_a_sound_text(text: bytes) -> None:
    depth = json_text._depth_bound(text)
    assert scan(text, depth) is None
    refusal = scan(text, depth - 1)
    assert refusal is not None
    assert refusal.code == "too_deep"
    assert (find_fault(text) is None) == (depth <= MAX_DEPTH)


def _depth_by_hand(text: bytes, end: int) -> int:
    """The deepest nesting in the first `end` bytes of a text, which are sound so far, in plain steps."""
    depth = deepest = at = 0
    in_string = False
    while at < end:
        byte = text[at : at + 1]
        if in_string and byte == b"\\":
            at += 1
        elif byte == b'"':
            in_string = not in_string
        elif not in_string:
            depth += (byte in (b"[", b"{")) - (byte in (b"]", b"}"))
            deepest = max(deepest, depth)
        at += 1
    return deepest


@law
@given(text=st.one_of(texts, near_samples))
def test_the_bound_of_depth_holds_up_to_the_first_fault(text: bytes) -> None:
    fault = find_fault(text)
    end = len(text) if fault is None else fault.offset
    assert json_text._depth_bound(text) >= _depth_by_hand(text, end)


# ---- faults ----


@law
@given(text=st.one_of(texts, near_samples))
def test_a_fault_has_its_place_and_nothing_after_it_matters(text: bytes) -> None:
    fault = find_fault(text)
    if fault is None:
        return
    lines = text.split(b"\n")
    assert sum(len(line) + 1 for line in lines[: fault.line - 1]) + fault.column - 1 == fault.offset <= len(text)
    if fault.code != "invalid_utf8" and fault.offset < len(text):
        again = find_fault(text[: fault.offset + 1])
        assert again is not None
        assert again.offset == fault.offset


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


@law
@given(text=st.one_of(texts, near_samples))
def test_json_loads_agrees_once_it_is_told_to_be_strict(text: bytes) -> None:
    """A second opinion without a server: the standard library, on decoded text and without its three constants."""
    try:
        json.loads(text.decode(), parse_constant=_refuse_constant, parse_int=str, parse_float=str)
    except ValueError:
        accepted = False
    else:
        accepted = True
    assert (find_fault(text) is None) == accepted
