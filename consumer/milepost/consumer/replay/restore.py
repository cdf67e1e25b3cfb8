"""The second look at the log: states that survive, but were not at hand at the end of the first.

It reads each partition once, from its first missing state on, and writes what is missing. What is missing is asked of history, so
that it does not matter how often the replay was killed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from milepost.consumer import queries
from milepost.consumer.config import ConsumeConfig
from milepost.consumer.database import connect, translated
from milepost.consumer.plan import HistoryRow
from milepost.consumer.records import LogRecord, decoded
from milepost.consumer.replay.rebuild import Rebuilder
from milepost.consumer.replay.scan import Scan
from milepost.consumer.rules import Outcome
from milepost.schemas import WrongLog

_WAIT_SECONDS: Final = 0.5
_READ_AT_ONCE: Final = 500
_WRITE_BYTES: Final = 8 * 1024 * 1024


def restore(config: ConsumeConfig, rebuilder: Rebuilder, partitions: list[int], stop: Callable[[], bool]) -> None:
    """Write the live states of these partitions that have no row yet. Raises `WrongLog` when the log lacks one."""
    for partition in partitions:
        rows: list[HistoryRow] = []
        size = 0
        for row in _found(config, partition, stop):
            rows.append(row)
            size += row.event.size
            if size >= _WRITE_BYTES:
                rebuilder.write_states(rows)
                rows, size = [], 0
        if rows:
            rebuilder.write_states(rows)


def missing(database: str, partition: int) -> Iterator[tuple[int, int]]:
    """Offset and seq of the live states of a partition that have no row, in log order, never all in memory."""
    with (
        translated(database),
        connect(database, application="milepost-replay") as connection,
        connection.transaction(),
        connection.cursor("missing") as cursor,
    ):
        cursor.execute(queries.load("replay")["missing"], [[partition]])
        for _, offset, seq in cursor:
            yield offset, seq


def _found(config: ConsumeConfig, partition: int, stop: Callable[[], bool]) -> Iterator[HistoryRow]:
    lacking = missing(config.database, partition)
    wanted = next(lacking, None)
    if wanted is None:
        return
    last = _last_offset(config, partition)
    scan = Scan(config.kafka, config.topic, {partition: wanted[0]}, {partition: last})
    try:
        while wanted is not None and not scan.is_done and not stop():
            for raw in scan.fetch(_READ_AT_ONCE, _WAIT_SECONDS).records:
                if wanted is not None and raw.offset == wanted[0]:
                    yield row_of(decoded(raw, None), wanted[1])
                    wanted = next(lacking, None)
    finally:
        scan.close()
    if wanted is not None and not stop():
        raise WrongLog(f"the log does not hold the record at {config.topic}/{partition}@{wanted[0]} any more")


def _last_offset(config: ConsumeConfig, partition: int) -> int:
    with translated(config.database), connect(config.database, application="milepost-replay") as connection:
        rows: Sequence[tuple[int, ...]] = connection.execute(
            queries.load("materialize")["positions"], [[partition]]
        ).fetchall()
    return rows[0][1]


def row_of(record: LogRecord, seq: int) -> HistoryRow:
    """What writes the state of a record as a live checkpoint."""
    if record.event is None:
        raise WrongLog(f"expected the event of seq {seq} at offset {record.offset}, found no event: {record.fault}")
    return HistoryRow(record, record.event, seq, Outcome.APPLIED, b"")
