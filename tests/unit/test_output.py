"""Tables and facts for people: a terminal is told nothing by a foreign publisher."""

from __future__ import annotations

import pytest

from milepost.consumer.cli.output import print_facts, print_table, shown


def test_shown() -> None:
    assert shown("\x1b[2J\r\n\u202e\ud800 caf\u00e9") == "\\x1b[2J\\r\\n\\u202e\\ud800 caf\u00e9"


def test_rows_stay_rows(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    print_table(["a", "b"], [("x\ny", "\x1b]0;z\x07")], empty="")
    print_facts([("name\n", "1\n2")])
    lines = [line.split() for line in capfdbinary.readouterr().out.splitlines()]
    assert lines == [[b"a", b"b"], [b"x\\ny", b"\\x1b]0;z\\x07"], [b"name\\n", b"1\\n2"]]
