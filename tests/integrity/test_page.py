"""docs/integrity.md says the MACs to the byte: here they are computed from the page's words, apart from the product's code."""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from milepost.consumer.integrity import CheckpointFacts, HeadFacts, IntegrityKey
from milepost.consumer.integrity.facts import canonical
from tests.fixtures.messagepack import packed

PAGE = Path(__file__).parent.parent.parent / "docs" / "integrity.md"
KEY = bytes(range(32))
EVENT_ID = bytes.fromhex("01a22df82a7c7a229f5830a436d2a2f5")
DIGEST = bytes.fromhex("63990b438b2f3fe6645f9b5e87c2ea468c11feb0320ac302420cd45252a02c5a")
CHAIN = bytes.fromhex("3e61fc4c059b734e6ffdcdca57e1e0510903da70953f623b0a94c8f538f1e5f7")
MADE, LOGGED = 1_796_040_000_000_000, 1_800_000_000_001_000
ROW = [
    *("milepost.checkpoints/1", "milepost.events", "acme", "trip-42", "c1", 1, EVENT_ID, None, None, 1, None, MADE),
    *(None, None, [["workflow", "travel"]], False, 23, DIGEST, LOGGED, 0, 0),
]
HEAD = [
    *("milepost.sessions/1", "milepost.events", "acme", "trip-42", 0, 1, 1, "c1", MADE, MADE, 1, 23, None, None),
    *(EVENT_ID, "c1", CHAIN, 0),
]


def test_the_pages_example() -> None:
    found = dict(re.findall(r"^\| (?:the )?(\S.*?) \| `([0-9a-f]+)` \|$", PAGE.read_text(), re.MULTILINE))
    assert found == {
        "`mac_key`": sha256(b"milepost integrity key id 1\n" + KEY).hexdigest()[:16],
        "row's bytes": packed(ROW).hex(),
        "row's `mac`": hmac.digest(KEY, packed(ROW), "sha256").hex(),
        "head's bytes": packed(HEAD).hex(),
        "head's `mac`": hmac.digest(KEY, packed(HEAD), "sha256").hex(),
    }


texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=300)
numbers = st.integers(0, 2**63 - 1)
times = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)


@st.composite
def rows(draw: st.DrawFn) -> CheckpointFacts:
    labels = draw(st.none() | st.dictionaries(texts, texts, max_size=20))
    new_row: Callable[..., CheckpointFacts] = CheckpointFacts
    return new_row(
        *draw(st.tuples(st.none() | texts, texts, texts, texts, numbers, st.binary(min_size=16, max_size=16))),
        *draw(st.tuples(st.none() | texts, st.none() | st.binary(min_size=16, max_size=16), st.none() | numbers)),
        *draw(st.tuples(st.none() | texts, times, st.none() | texts, st.none() | numbers)),
        tuple(sorted(labels.items())) if labels is not None else None,
        *draw(st.tuples(st.booleans(), st.integers(0, 2**31 - 1), st.binary(min_size=32, max_size=32), times)),
        *draw(st.tuples(st.integers(0, 2**31 - 1), numbers)),
    )


@given(rows())
def test_the_product_computes_what_the_page_says(row: CheckpointFacts) -> None:
    fields = ["milepost.checkpoints/1", *(getattr(row, name) for name in row.__struct_fields__)]
    assert canonical(row) == packed(fields)
    assert IntegrityKey(KEY).mac(row) == hmac.digest(KEY, packed(fields), "sha256")


def test_the_example_s_head_is_what_the_product_computes() -> None:
    assert canonical(HeadFacts(*HEAD[1:])) == packed(HEAD)  # type: ignore[arg-type]
