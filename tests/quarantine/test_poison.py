"""Our corpus of poison: each record ends in the quarantine, whole and with its reason, and takes no other with it."""

from __future__ import annotations

import pytest

from milepost.schemas import InvalidRecord, Reason, decode
from tests.fixtures.corpus import ROOT, Case, corpus, documented
from tests.fixtures.poisoned import consume, neighbour, stored_record

CASES = corpus("poison")


def test_the_page_has_the_corpus() -> None:
    assert list(documented("quarantine.md")) == [(case.name, case.about, case.result) for case in CASES]


def test_the_page_has_every_reason() -> None:
    page = (ROOT / "docs" / "quarantine.md").read_text(encoding="utf-8")
    assert [reason.value for reason in Reason if f"\n| `{reason.value}` |" not in page] == []


def test_the_corpus_has_every_reason() -> None:
    # these two hang on Postgres and on the number of partitions, and have tests of their own
    elsewhere = {"refused_by_postgres", "wrong_partition"}
    assert {case.result for case in CASES} == {reason.value for reason in Reason} - elsewhere


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.result != "unreadable_headers"], ids=lambda case: case.name
)
def test_the_codec(case: Case) -> None:
    headers = [(name.decode(), value) for name, value in case.record.headers]
    with pytest.raises(InvalidRecord) as raised:
        decode(case.record.key, case.record.value, headers)
    assert raised.value.reason == case.result
    assert case.expect["says"] in raised.value.detail


def test_through_the_real_servers(kafka_servers: str, topic: str, database: str) -> None:
    topic = f"{topic}.one"
    milepost, found = consume(kafka_servers, topic, database, CASES)
    assert found.neighbours == [neighbour(number)[0] for number in range(len(CASES) + 1)]
    assert found.history == {}
    assert {name: row["reason"] for name, row in found.quarantine.items()} == {case.name: case.result for case in CASES}
    assert (found.report["quarantined"], found.report["applied"]) == (len(CASES), len(CASES) + 1)
    for number, case in enumerate(CASES):
        row = found.quarantine[case.name]
        assert case.expect["says"] in row["detail"]
        assert (row["topic"], row["partition"], row["offset"], row["status"]) == (topic, 0, 2 * number + 1, "open")
        stored = stored_record(row)
        assert (stored.key, stored.value) == (case.record.key, case.record.value), case.name
        if case.name != "two-header-names-not-utf8":
            assert stored.headers == list(case.record.headers), case.name
    two = stored_record(found.quarantine["two-header-names-not-utf8"]).headers
    assert two[:3] == [(b"\xff\xfe", b"x"), (b"plain", None), (b"", b"\xfc")]
    # nothing waits: a second run has nothing to do, and a retry changes nothing
    assert b'"events":0' in milepost.run("consume", "--until-caught-up", "--json")
    ids = [f"0@{2 * number + 1}" for number in range(len(CASES))]
    assert milepost.run("quarantine", "retry", "--json", *ids, expect=1).count(b'"invalid"') == len(CASES)
