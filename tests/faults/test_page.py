"""docs/faults.md says what the tests do."""

from __future__ import annotations

import re
from pathlib import Path

from tests.chaos import planted
from tests.chaos.schedule import FAULTS
from tests.faults import page, test_consumers, test_networks, test_publisher, test_servers

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")


def test_the_matrix_is_what_the_tests_do() -> None:
    between = re.search(r"<!-- the matrix: .* -->\n(.*)<!-- end -->", TEXT, re.DOTALL)
    assert between is not None
    assert between[1].strip() == page.table()


def test_every_cell_has_a_test_or_a_reason() -> None:
    named = set(re.findall(r"`([a-z-]+)`", page.table()))
    assert named == {str(fault) for fault in FAULTS}
    tested = [
        *test_consumers.CONSUMERS,
        *test_servers.SERVERS,
        *test_networks.NETWORKS,
        *test_publisher.PUBLISHER,
    ]
    assert named == {str(fault) for fault in tested}
    reasons = set(re.findall(r"\[(\d)\]", page.table()))
    assert reasons <= set(re.findall(r"^(\d)\. ", TEXT, re.MULTILINE))


def test_the_tests_it_names_are_there() -> None:
    for path, name in re.findall(r"`(tests/[a-z_/]+\.py)(?:::(\w+))?", TEXT):
        source = (ROOT / path).read_text(encoding="utf-8")
        assert not name or f"def {name}(" in source, (path, name)
    assert set(re.findall(r"^\| `([a-z-]+)` \| ", TEXT, re.MULTILINE)) == set(planted.BUGS)
