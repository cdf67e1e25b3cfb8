"""The catalogue: its names are well-formed, the page shows it, and values keep their sums."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from milepost.consumer.materializer import Applied
from milepost.consumer.observe import Observer, exposition, metrics
from milepost.consumer.observe.board import Board
from milepost.consumer.observe.metrics import CATALOGUE, Metric, table
from milepost.consumer.observe.tallies import Tallies, WorkerState
from milepost.consumer.rules import Outcome
from milepost.consumer.sqlstates import MEANINGS, Meaning, meaning

PAGE = Path(__file__).parent.parent.parent / "docs" / "operating.md"


@pytest.mark.parametrize("metric", CATALOGUE, ids=lambda metric: metric.name)
def test_a_name_follows_the_conventions(metric: Metric) -> None:
    assert re.fullmatch(r"milepost(_[a-z]+)+", metric.name)
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    for unit in ("seconds", "bytes"):
        assert (f"_{unit}" in metric.name.removesuffix("_total")) == (metric.unit == unit)
    assert bool(metric.buckets) == (metric.kind == "histogram")
    assert list(metric.buckets) == sorted(set(metric.buckets))
    assert metric.help.endswith(".")


def test_the_page_shows_the_catalogue() -> None:
    assert len({metric.name for metric in CATALOGUE}) == len(CATALOGUE)
    declared = {id(value) for value in vars(metrics).values() if isinstance(value, Metric)}
    assert declared == {id(metric) for metric in CATALOGUE}
    assert table() in PAGE.read_text()


def test_the_page_shows_what_each_sqlstate_means() -> None:
    shown = {
        state: words
        for row in re.findall(r"^\| (`.+?) \| (.+?) \| (.+?) \|$", PAGE.read_text(), re.MULTILINE)
        for state, words in [(state, row[2]) for state in re.findall(r"`([0-9A-Z]{2,5})`", row[0])]
    }
    assert shown == {state: found.value for state, found in MEANINGS.items()}


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("", Meaning.AWAY),
        ("08006", Meaning.AWAY),
        ("57P01", Meaning.AWAY),
        ("57014", Meaning.BUSY),
        ("25006", Meaning.AWAY),
        ("40001", Meaning.BUSY),
        ("53100", Meaning.SCARCE),
        ("42501", Meaning.ACCESS),
        ("42703", Meaning.SCHEMA),
        ("28P01", Meaning.ACCESS),
        ("23505", Meaning.OTHER),
        ("23514", Meaning.RECORD),
        ("P0001", Meaning.OTHER),
        ("XX000", Meaning.OTHER),
    ],
)
def test_the_longest_prefix_holds(state: str, expected: Meaning) -> None:
    assert meaning(state) is expected


def exposed(board: Board) -> dict[tuple[str, str], float]:
    seen, tallies = board.totals()
    found = generate_latest(exposition.registry(tallies, exposition.gauges(seen, {0: 12, 1: 5}, {}, ready=True)))
    return {
        (sample.name, next(iter(sample.labels.values()), "")): sample.value
        for family in text_string_to_metric_families(found.decode())
        for sample in family.samples
    }


@dataclass
class Membership:
    """What a worker knows of its place in the group."""

    assigned: frozenset[int]
    joined: bool = True
    started: bool = True
    assignments: int = 1


def told(board: Board, number: int) -> Observer:
    board.lives(number, True)
    return Observer(lambda state: board.told(number, state))


def test_counts_outlive_their_worker_and_gauges_do_not() -> None:
    board = Board(2)
    first, second = told(board, 0), told(board, 1)
    first.batch(Applied({Outcome.APPLIED: 8, Outcome.STALE: 1}, 1, 6, 1, 2, 3, 5_000, {"invalid_state": 1}), 0.07)
    second.batch(Applied({Outcome.APPLIED: 20}, 0, 20, 1), 20.0)
    first.stands({0: 10}, Membership(frozenset({0})))
    second.stands({1: 20, 9: 3}, Membership(frozenset({1})))
    first.stopped({0: "at offset 10: KeyError"}, 1)
    before = exposed(board)
    assert before["milepost_events_total", "applied"] == 28
    assert before["milepost_events_total", "quarantined"] == before["milepost_quarantined_total", "invalid_state"] == 1
    assert before["milepost_events_total", "conflict"] == 0
    assert before["milepost_states_written_total", ""] == 26
    assert before["milepost_states_skipped_total", ""] == 2
    assert before["milepost_state_bytes_total", ""] == 5_000
    assert before["milepost_batch_events_count", ""] == 2
    assert before["milepost_batch_events_sum", ""] == 30
    assert before["milepost_batch_seconds_bucket", "0.1"] == before["milepost_batch_seconds_bucket", "10.0"] == 1
    assert before["milepost_batch_seconds_bucket", "+Inf"] == 2
    assert before["milepost_lag_records", "0"] == 2
    assert before["milepost_lag_records", "1"] == 0
    assert before["milepost_position_offset", "1"] == 20
    assert (before["milepost_stopped_partitions", "0"], before["milepost_stopped_partitions", "1"]) == (1, 0)
    assert (before["milepost_assigned_partitions", ""], before["milepost_workers", ""]) == (2, 2)
    board.lives(0, False)
    after = exposed(board)
    gone = {key for key in before if key not in after}
    assert gone == {
        (name, "0")
        for name in (
            "milepost_lag_records",
            "milepost_position_offset",
            "milepost_log_end_offset",
            "milepost_stopped_partitions",
        )
    }
    assert {key: value for key, value in after.items() if key[0].endswith(("_total", "_bucket", "_sum"))} == {
        key: value for key, value in before.items() if key[0].endswith(("_total", "_bucket", "_sum"))
    }
    board.lives(0, True)
    assert exposed(board)["milepost_worker_restarts_total", ""] == 1


def test_a_state_survives_its_way() -> None:
    sent: list[bytes] = []
    observer = Observer(sent.append)
    observer.away("postgres", "gone")
    observer.away("postgres", "still gone")
    observer.back("postgres")
    observer.back("postgres")
    state = msgspec.msgpack.decode(sent[-1], type=WorkerState)
    assert state.away == {}
    assert state.tallies.counters[metrics.UNAVAILABLE.name] == {"kafka": 0, "postgres": 2}
    assert state.tallies.counters[metrics.RECONNECTS.name] == {"kafka": 0, "postgres": 1}
    total = Tallies.zero()
    total.add(state.tallies)
    total.add(state.tallies)
    assert total.counters[metrics.UNAVAILABLE.name]["postgres"] == 4
