"""A short run of what fuzz_codec.py does for as long as one likes, and the same records against the real Postgres."""

from __future__ import annotations

import os

import psycopg
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from milepost.consumer.materializer import Materializer
from milepost.schemas import DEFAULT_TOPIC
from tests.fixtures.dump import empty
from tests.fixtures.view import PARTITIONS, FakeLog, bind_log
from tests.fuzz.checks import check
from tests.fuzz.records import Record, records

EXAMPLES = int(os.environ.get("MILEPOST_LAW_EXAMPLES", "200"))
law = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
)


@law
@given(records)
def test_any_record_is_an_event_or_has_a_reason(record: Record) -> None:
    check(record)


@settings(law, max_examples=max(20, EXAMPLES // 10))
@given(st.lists(records, min_size=1, max_size=40))
def test_postgres_takes_what_the_codec_takes(database: str, written: list[Record]) -> None:
    """And what it does not take stands in the quarantine as it was: nothing that is written stops the consumer."""
    empty(database)
    bind_log(database)
    log = FakeLog()
    made = [log.append_raw(*record) for record in written]
    writer = Materializer(database, DEFAULT_TOPIC)
    writer.take(range(PARTITIONS))
    applied = writer.apply(made)
    writer.close()
    assert applied.transactions == 1
    assert sum(applied.outcomes.values()) == sum(record.event is not None for record in made)
    with psycopg.connect(database) as connection:
        found = connection.execute(
            'select partition, "offset", key, value, reason from milepost.quarantine order by partition, "offset"'
        ).fetchall()
    expected = [
        (record.partition, record.offset, record.key, record.value, record.fault.reason.value)
        for record in made
        if record.fault is not None
    ]
    assert found == sorted(expected, key=lambda row: row[:2])
