"""What becomes of records by other publishers: a row of docs/foreign-publishers.md for each, and a record behind it."""

from __future__ import annotations

from tests.fixtures.corpus import corpus, documented
from tests.fixtures.poisoned import Consumed, consume, neighbour

CASES = corpus("foreign")


def shown(value: object) -> str | None:
    """A column as its text, as the corpus has it."""
    return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def test_the_page_has_the_corpus() -> None:
    assert list(documented("foreign-publishers.md")) == [(case.name, case.about, case.result) for case in CASES]


def test_through_the_real_servers(kafka_servers: str, topic: str, database: str) -> None:
    _, found = consume(kafka_servers, f"{topic}.one", database, CASES)
    assert found.neighbours == [neighbour(number)[0] for number in range(len(CASES) + 1)]
    assert results(found) == {case.name: case.result for case in CASES}
    for case in CASES:
        if "outcome" in case.expect:
            row = found.history[case.name]
            assert row["state"] == (case.state if row["kind"] == "checkpoint-created" else None), case.name
            expected = case.expect.get("history", {})
            assert {name: shown(row[name]) for name in expected} == expected, case.name


def results(found: Consumed) -> dict[str, str]:
    """The reason or the outcome of each record."""
    return {name: row["reason"] for name, row in found.quarantine.items()} | {
        name: row["outcome"] for name, row in found.history.items()
    }
