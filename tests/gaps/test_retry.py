"""A record that is retried out of the quarantine was counted when it came, and is not counted again."""

from __future__ import annotations

import sys
from contextlib import closing

import psycopg
import pytest

from milepost.consumer.database import connect
from milepost.consumer.retry import Retried, Retry
from milepost.producer.testing import MemoryPublisher
from milepost.schemas.wire import TYPES, Headers, Kind
from tests.fixtures.view import FakeLog, PostgresView
from tests.producer.helpers import created

UNKNOWN = b"milepost.session-archived.v1"


@pytest.mark.parametrize("twice", [False, True])
def test_a_retried_record_counts_once(database: str, monkeypatch: pytest.MonkeyPatch, twice: bool) -> None:
    publisher, log, view = MemoryPublisher(), FakeLog(), PostgresView(database)
    for number in range(3):
        publisher.publish(created(number))
    records = publisher.records
    log.append_raw(records[0].key, records[0].value, records[0].headers)
    for _ in range(1 + twice):
        log.append_raw(records[1].key, records[1].value, _of_kind(records[1].headers, UNKNOWN))
    view.apply(log.records)
    view.close()
    assert _counted(database) == [(2, 2)]
    # a later version knows the kind
    kinds = {**TYPES, UNKNOWN: Kind.CHECKPOINT_CREATED}
    monkeypatch.setattr(sys.modules["milepost.schemas.codec.decode"], "TYPES", kinds)
    with closing(connect(database)) as connection:
        results = list(Retry(connection).run([log.position(record) for record in log.records[1:]]))
    assert [result.result for result in results] == [Retried.APPLIED] * (1 + twice)
    assert _counted(database) == [(2, 2)]


def _of_kind(headers: Headers, kind: bytes) -> Headers:
    return [(name, kind if name == "ce_type" else value) for name, value in headers]


def _counted(database: str) -> list[tuple[int, int]]:
    with psycopg.connect(database) as connection:
        return connection.execute("select events, highest_seq from milepost.publishers").fetchall()
