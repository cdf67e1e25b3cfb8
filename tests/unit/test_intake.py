"""Batches are cut by events and bytes, keep the log's order, and are made ready while something else is waited for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.consumer import intake as intake_module
from milepost.consumer import records as records_module
from milepost.consumer.fetcher import Fetched
from milepost.consumer.intake import Batch, Intake
from milepost.consumer.isolation import PartitionsFailed
from milepost.consumer.records import LogRecord, RawRecord
from milepost.schemas import WrongLog


def raw(offset: int, weight: int = 10, partition: int = 0) -> RawRecord:
    return RawRecord(partition, offset, 0, b"k", None, (), True, weight)


class Log:
    """Gives out what it was told, one piece a call; an error stands for itself."""

    def __init__(self, *pieces: Fetched | WrongLog) -> None:
        self.pieces = list(pieces)
        self.waited: list[float] = []

    def __call__(self, limit: int, seconds: float) -> Fetched:
        self.waited.append(seconds)
        if not self.pieces:
            return Fetched([], {})
        piece = self.pieces.pop(0)
        if isinstance(piece, WrongLog):
            raise piece
        if len(piece.records) > limit:
            self.pieces.insert(0, Fetched(piece.records[limit:], piece.skips, piece.count - limit))
            piece = records(*piece.records[:limit])
        return piece


def records(*found: RawRecord) -> Fetched:
    return Fetched(list(found), {}, len(found))


def offsets(batch: Batch) -> list[int]:
    return [record.offset for record in batch.records]


def test_a_batch_ends_at_its_events_or_bytes_and_a_larger_record_stands_alone() -> None:
    log = Log(records(*(raw(n) for n in range(5)), raw(5, 95), raw(6, 500), raw(7, 10)))
    intake = Intake(log, None, 3, 100)
    assert [offsets(intake.batch(1.0)) for _ in range(6)] == [[0, 1, 2], [3, 4], [5], [6], [7], []]
    assert (log.waited[0], log.waited[-2:]) == (1.0, [1.0, 0])


@given(
    st.lists(st.integers(1, 200), max_size=60),
    st.integers(1, 8),
    st.integers(1, 12),
    st.integers(0, 40),
    st.integers(0, 2),
)
def test_nothing_is_lost_or_turned_whatever_is_done_ahead(
    weights: list[int], piece: int, events: int, ahead: int, full: int
) -> None:
    found = [raw(number, weight) for number, weight in enumerate(weights)]
    intake = Intake(
        Log(*(records(*found[i : i + piece]) for i in range(0, len(found), piece))), None, events, 300, full=full
    )
    seen: list[int] = []
    while batch := offsets(intake.batch(0.1)):
        assert len(batch) <= events
        assert len(batch) == 1 or sum(weights[offset] for offset in batch) <= 300
        seen += batch
        for _ in range(ahead):
            intake.ahead()
    assert seen == list(range(len(weights)))
    assert intake.is_empty


def test_ahead_reads_and_decodes_without_waiting_until_nothing_is_there() -> None:
    log = Log(records(raw(0), raw(1)), records(raw(2)))
    intake = Intake(log, None, 100, 1_000)
    # two to read, two to decode
    assert [intake.ahead() for _ in range(5)] == [True] * 4 + [False]
    assert (log.pieces, log.waited) == ([], [0, 0, 0])
    assert offsets(intake.batch(1.0)) == [0, 1, 2]


def test_ahead_fills_two_batches_and_no_more() -> None:
    log = Log(records(*(raw(n) for n in range(4))), records(*(raw(n) for n in range(4, 9))))
    intake = Intake(log, None, 3, 1_000, full=1)
    while intake.ahead():
        pass
    assert log.pieces == [records(raw(6), raw(7), raw(8))]
    assert [offsets(intake.batch(1.0)) for _ in range(3)] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]


def test_full_batches_are_given_out_before_a_record_that_cannot_be_decoded_but_not_before_a_wrong_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def decoded(found: RawRecord, partitions: int | None) -> LogRecord:
        if found.offset == 5:
            raise KeyError("a bug")
        return records_module.decoded(found, partitions)

    monkeypatch.setattr(intake_module, "decoded", decoded)
    intake = Intake(Log(records(*(raw(n) for n in range(6)))), None, 3, 1_000, full=1)
    while intake.ahead():
        pass
    assert [offsets(intake.batch(1.0)) for _ in range(2)] == [[0, 1, 2], [3, 4]]
    with pytest.raises(PartitionsFailed):
        intake.batch(1.0)
    intake = Intake(Log(records(*(raw(n) for n in range(4))), WrongLog("gone")), None, 3, 1_000, full=1)
    while intake.ahead():
        pass
    with pytest.raises(WrongLog, match="gone"):
        intake.batch(1.0)


def test_a_skip_waits_for_all_batches_that_lie_before_it() -> None:
    intake = Intake(Log(Fetched([raw(0), raw(1), raw(2)], {0: 9}, 4)), None, 2, 1_000, full=1)
    while intake.ahead():
        pass
    batches = [intake.batch(1.0) for _ in range(2)]
    assert [(offsets(batch), batch.skips) for batch in batches] == [([0, 1], {}), ([2], {0: 9})]
    assert intake.is_empty


def test_a_skip_of_a_quiet_partition_does_not_wait_for_a_busy_one() -> None:
    """Of a partition that ends in a transaction's marker, while others always have more than a batch."""
    busy = [records(*(raw(n) for n in range(n, n + 2))) for n in range(2, 40, 2)]
    intake = Intake(Log(Fetched([raw(0), raw(1), raw(7, partition=1)], {1: 9}, 4), *busy), None, 2, 1_000, full=1)
    batches = []
    for _ in range(3):
        while intake.ahead():
            pass
        batches.append(intake.batch(1.0))
    assert [offsets(batch) for batch in batches] == [[0, 1], [7], [2, 3]]
    assert [batch.skips for batch in batches] == [{}, {1: 9}, {}]


def test_what_is_no_record_fills_a_batch_too_and_the_next_one_is_read_ahead() -> None:
    """The end of a partition, or a record that is not wanted, counts among what was read."""
    log = Log(Fetched([raw(0), raw(1)], {}, 3), records(raw(2), raw(3), raw(4)))
    intake = Intake(log, None, 3, 1_000, full=1)
    while intake.ahead():
        pass
    assert log.pieces == []
    assert [offsets(intake.batch(1.0)) for _ in range(2)] == [[0, 1], [2, 3, 4]]


def test_a_piece_is_a_few_records_or_one_large_one(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def decoded(found: RawRecord, partitions: int | None) -> LogRecord:
        seen.append(found.offset)
        return records_module.decoded(found, partitions)

    monkeypatch.setattr(intake_module, "decoded", decoded)
    monkeypatch.setattr(intake_module, "_PIECE_BYTES", 100)
    intake = Intake(Log(records(raw(0, 40), raw(1, 40), raw(2, 40), raw(3, 500), raw(4, 1))), None, 100, 10_000)
    assert intake.ahead()
    pieces = []
    while intake.ahead():
        pieces.append(list(seen))
        seen.clear()
    assert pieces == [[0, 1, 2], [3], [4]]


def test_a_skip_comes_with_the_batch_behind_which_it_lies() -> None:
    intake = Intake(Log(Fetched([raw(0, 60), raw(1, 60), raw(2, 10)], {0: 9}, 4)), None, 10, 100)
    assert intake.batch(1.0).skips == {}
    assert not intake.is_empty
    batch = intake.batch(1.0)
    assert (offsets(batch), batch.skips) == ([1, 2], {0: 9})
    assert intake.is_empty


def test_a_record_behind_a_skip_makes_it_needless() -> None:
    log = Log(Fetched([], {0: 9, 1: 4}, 2), records(raw(9)))
    batch = Intake(log, None, 10, 1_000).batch(1.0)
    assert (offsets(batch), batch.skips) == ([9], {1: 4})


def test_nothing_is_applied_once_the_log_is_the_wrong_one() -> None:
    log = Log(records(raw(0)), WrongLog("gone"), records(raw(1)))
    intake = Intake(log, None, 10, 1_000)
    with pytest.raises(WrongLog, match="gone"):
        intake.batch(1.0)
    assert offsets(intake.batch(1.0)) == [1]


def test_what_came_before_a_record_that_cannot_be_decoded_is_applied_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def decoded(found: RawRecord, partitions: int | None) -> LogRecord:
        if found.offset == 2:
            raise KeyError("a bug")
        return records_module.decoded(found, partitions)

    monkeypatch.setattr(intake_module, "decoded", decoded)
    intake = Intake(Log(records(*(raw(n) for n in range(4)))), None, 10, 1_000)
    assert offsets(intake.batch(1.0)) == [0, 1]
    with pytest.raises(PartitionsFailed) as caught:
        intake.batch(1.0)
    assert (set(caught.value.partitions), caught.value.offset) == ({0}, 2)
    assert isinstance(caught.value.cause, KeyError)


def test_ahead_keeps_an_error_for_the_batch() -> None:
    intake = Intake(Log(WrongLog("gone")), None, 10, 1_000)
    for _ in range(3):
        intake.ahead()
    with pytest.raises(WrongLog, match="gone"):
        intake.batch(1.0)


def test_much_that_is_not_wanted_ends_a_batch_so_that_its_position_moves() -> None:
    log = Log(*(Fetched([], {0: number}, 4) for number in (4, 8, 12)), records(raw(20)))
    intake = Intake(log, None, 8, 1_000)
    assert intake.batch(1.0) == Batch([], {0: 8})
    batch = intake.batch(1.0)
    assert (offsets(batch), batch.skips) == ([20], {})


def test_what_was_read_is_forgotten_with_its_positions() -> None:
    intake = Intake(Log(records(raw(0), raw(1)), records(raw(0))), None, 10, 1_000)
    intake.ahead()
    intake.ahead()
    intake.clear()
    assert offsets(intake.batch(1.0)) == [0]
