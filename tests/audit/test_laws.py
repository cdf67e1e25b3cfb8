"""A clean view verifies clean, whatever happened to it: against itself and against its log, whole and from a position on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from itertools import pairwise
from typing import NamedTuple

import msgspec
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from milepost.consumer.audit import VerifyRequest, verify
from milepost.consumer.materializer import Materializer
from milepost.consumer.records import LogRecord
from milepost.schemas import DEFAULT_TOPIC, Event, Position
from tests.audit.fake_log import against, ends_of, in_parts, retry
from tests.fixtures.dump import empty
from tests.fixtures.strategies import cuts, events
from tests.fixtures.view import PARTITIONS, FakeLog, bind_log
from tests.properties.test_view_laws import set_newest
from tests.quarantine.helpers import unknown_to_an_older_version

EXAMPLES = int(os.environ.get("MILEPOST_LAW_EXAMPLES", "100"))
PUBLISHERS = ("01939b2c-0000-7000-8000-00000000000a", "01939b2c-0000-7000-8000-00000000000b")


def numbered_log(happened: list[Event]) -> FakeLog:
    """Events, some of them numbered by publishers, some sent twice, and records that are no events."""
    plain, log = FakeLog(), FakeLog()
    for number, event in enumerate(happened, 1):
        record = plain.append(event)
        headers = list(record.headers)
        if number % 3:
            publisher = PUBLISHERS[number % 2]
            headers += [("ce_publisherid", publisher.encode()), ("ce_publisherseq", b"%d" % number)]
        for _ in range(2 if number % 7 == 0 else 1):
            log.append_raw(record.key, record.value, headers)
        if number % 9 == 0:
            log.append_raw(record.key, b"no JSON", headers)
    return log


class Fate(NamedTuple):
    """What happens to a view beside its log."""

    bounds: list[int]
    unknown: set[int]
    """Records that an older version put into the quarantine, and that are retried at the end."""
    newest: int
    changed_at: int
    """The batch before which the policy changes."""
    policy: tuple[int, int | None, int | None]
    is_swept: bool


def fill(database: str, records: Sequence[LogRecord], fate: Fate) -> None:
    """Build the view from nothing."""
    empty(database)
    bind_log(database)
    set_newest(database, fate.newest)
    seen = [unknown_to_an_older_version(r) if number in fate.unknown else r for number, r in enumerate(records)]
    with closing(Materializer(database, DEFAULT_TOPIC)) as materializer:
        materializer.take(range(PARTITIONS))
        for number, (start, end) in enumerate(pairwise(fate.bounds)):
            if number == fate.changed_at:
                set_newest(database, *fate.policy)
            if start < end:
                materializer.apply(seen[start:end])
        while fate.is_swept and materializer.is_sweeping:
            materializer.sweep()
    if fate.unknown:
        retry(database, [record for number, record in enumerate(records) if number in fate.unknown])


@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    happened=st.lists(events(), max_size=60),
    data=st.data(),
    is_nightly=st.booleans(),
    processes=st.integers(1, PARTITIONS + 2),
)
def test_a_clean_view_verifies_clean(
    database: str, happened: list[Event], data: st.DataObject, is_nightly: bool, processes: int
) -> None:
    records = numbered_log(happened).records
    number, limit = st.integers(1, 5), st.none() | st.integers(1, 80)
    fate = Fate(
        data.draw(cuts(len(records))),
        data.draw(st.sets(st.integers(0, 70), max_size=3)),
        data.draw(number),
        data.draw(st.integers(0, 6)),
        data.draw(st.tuples(number, limit, limit)),
        data.draw(st.booleans()),
    )
    fill(database, records, fate)
    with pytest.MonkeyPatch.context() as patch:
        in_parts(patch)
        request = VerifyRequest(database=database, against_log=True, processes=processes)
        report = against(patch, database, records, request=request)
        assert (report.first, report.verified, report.rows["log"]) == ([], True, len(records))
        if is_nightly:
            since = [Position("", partition, end // 2) for partition, end in ends_of(records).items()]
            report = against(patch, database, records, request=msgspec.structs.replace(request, since=since))
            assert (report.first, report.verified) == ([], True)
        else:
            assert_clean(database)


def assert_clean(database: str) -> None:
    report = verify(VerifyRequest(database=database))
    assert (report.first, report.unchecked, report.verified) == ([], [], True)
    with psycopg.connect(database) as connection:
        for table, rows in report.rows.items():
            assert connection.execute(f"select count(*) from milepost.{table}").fetchone() == (rows,)


def test_an_empty_view_verifies_clean(database: str) -> None:
    bind_log(database)
    assert_clean(database)
