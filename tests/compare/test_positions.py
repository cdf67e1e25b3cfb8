"""`milepost compare --ignore-positions`: where records stand is no difference, all else is."""

from __future__ import annotations

import json
from uuid import UUID

import msgspec
import psycopg
import pytest

from milepost.schemas import CheckpointCreated, SessionDeleted, encode
from tests.fixtures.commands import Milepost
from tests.fixtures.strategies import START
from tests.fixtures.view import FakeLog, PostgresView

NONE = Milepost({})
PUBLISHER = "01939b2c-0000-7000-8000-000000000001"


def a_log(topic: str, partitions: int) -> FakeLog:
    """The same events whatever the partitions: a numbered publisher, deletions, and twice the same record that is no event."""
    log = FakeLog(topic, partitions)
    for step in range(200):
        event: CheckpointCreated | SessionDeleted = CheckpointCreated(
            tenant_id="acme", session_id=f"s{step % 9}", checkpoint_id=f"c{step}", state=b" 1.0 ", created_at=START
        )
        if step % 50 == 49:
            event = SessionDeleted(tenant_id="acme", session_id=f"s{step % 9}", deleted_at=START)
        event = msgspec.structs.replace(event, event_id=UUID(int=step + 1))
        encoded = encode(event, source="/runtimes/test")
        headers = [(name, value.encode() if isinstance(value, str) else value) for name, value in encoded.headers]
        numbered = [("ce_publisherid", PUBLISHER.encode()), ("ce_publisherseq", b"%d" % (step + 1))]
        log.append_raw(encoded.key, encoded.value, [*headers, *numbered])
    for _ in range(2):
        log.append_raw(None, None, [("a", None), ("a", b"\xff")])
        log.append_raw(b"acme/s1", b"\xff", [])
    return log


@pytest.fixture
def copies(database: str, other_database: str) -> tuple[str, str]:
    """Views of a log and of its copy in more partitions of another topic."""
    for place, log in ((database, a_log("narrow", 4)), (other_database, a_log("wide", 7))):
        view = PostgresView(place, log.topic, log.partitions)
        view.apply(log.records)
        view.close()
    return database, other_database


def test_views_of_a_log_and_of_its_copy(copies: tuple[str, str]) -> None:
    found = json.loads(NONE.run("compare", *copies, "--ignore-positions", "--json"))
    assert (found["equal"], found["differences"]) == (True, [])
    assert found["rows"] == {
        "partitions": 1,
        "sessions": 9,
        "checkpoints": 142,
        "history": 200,
        "publishers": 1,
        "quarantine": 4,
    }
    left, right = (NONE.run("compare", copy, "--digest", "--ignore-positions") for copy in copies)
    assert left == right
    apart = json.loads(NONE.run("compare", *copies, "--json", "--most", "1000", expect=1))
    assert {one["column"] for one in apart["differences"] if one["table"] == "sessions"} == {"partition"}


@pytest.mark.parametrize(
    ("change", "table", "column"),
    [
        (
            "update milepost.partitions set state_bytes = state_bytes + 1 where partition = 0",
            "partitions",
            "state_bytes",
        ),
        ("update milepost.sessions set live_bytes = live_bytes + 1 where session_id = 's1'", "sessions", "live_bytes"),
        ("update milepost.checkpoints set state = '1.00' where seq = 9", "checkpoints", "state"),
        ("update milepost.checkpoints set log_time = now() where seq = 9", "checkpoints", "log_time"),
        ("update milepost.history set chain = '' where seq = 3", "history", "chain"),
        ("update milepost.publishers set events = events + 1 where partition = 0", "publishers", "events"),
        ("update milepost.quarantine set value = '\\x00' where key is not null", "quarantine", None),
        ("update milepost.quarantine set key = '' where key is null", "quarantine", None),
        ("update milepost.quarantine set headers = '[]' where key is null", "quarantine", None),
        (
            'delete from milepost.quarantine where "offset" = (select max("offset") from milepost.quarantine)',
            "quarantine",
            None,
        ),
    ],
)
def test_each_other_difference_is_named(copies: tuple[str, str], change: str, table: str, column: str | None) -> None:
    with psycopg.connect(copies[1]) as connection:
        connection.execute("set session_replication_role = replica")
        connection.execute(change)
    found = json.loads(NONE.run("compare", *copies, "--ignore-positions", "--json", expect=1))
    assert {(one["table"], one["column"]) for one in found["differences"]} == {(table, column)}
    left, right = (NONE.run("compare", copy, "--digest", "--ignore-positions") for copy in copies)
    assert left != right
