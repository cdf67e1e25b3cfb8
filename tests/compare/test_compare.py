"""`milepost compare`: equal views are equal, and every difference in what they hold is named by table and key."""

from __future__ import annotations

import json
import random

import psycopg
import pytest

from milepost.consumer import compare as views
from milepost.schemas import CheckpointCreated, SessionDeleted
from tests.fixtures.commands import Milepost
from tests.fixtures.view import FakeLog, PostgresView

NONE = Milepost({})


def a_log() -> FakeLog:
    chosen = random.Random(7)
    log = FakeLog()
    for step in range(300):
        session_id = f"s{chosen.randrange(6)}"
        if step % 60 == 59:
            log.append(SessionDeleted(tenant_id="acme", session_id=session_id, reason="asked to"))
        elif step % 50 == 49:
            log.append_raw(b"acme/x", b"\xff\x00", [("a", None), ("a", b"\xff")])
        else:
            state = f' {{"$type":0,"n":1.0,"step":{step}}}'.encode()
            log.append(CheckpointCreated(tenant_id="acme", session_id=session_id, state=state, labels={"k": "ключ"}))
    return log


@pytest.fixture
def twins(database: str, other_database: str) -> tuple[str, str]:
    """Two views of one log, built in different batches."""
    log = a_log()
    for place, size in ((database, 7), (other_database, 300)):
        view = PostgresView(place)
        for start in range(0, len(log.records), size):
            view.apply(log.records[start : start + size])
        view.close()
    return database, other_database


def digest(database: str) -> str:
    return NONE.run("compare", database, "--digest").decode().strip()


def test_views_of_one_log_are_equal_and_have_one_digest(twins: tuple[str, str]) -> None:
    found = json.loads(NONE.run("compare", *twins, "--json"))
    assert found["equal"] is True
    assert found["differences"] == []
    with psycopg.connect(twins[0]) as connection:
        for table, rows in found["rows"].items():
            assert connection.execute(f"select count(*) from milepost.{table}").fetchone() == (rows,)
    assert digest(twins[0]) == digest(twins[1])
    assert len(digest(twins[0])) == 64


@pytest.mark.parametrize(
    ("change", "table", "column"),
    [
        ("update milepost.checkpoints set state = (state::text || ' ')::json where seq = 50", "checkpoints", "state"),
        ("update milepost.checkpoints set labels = '{}' where seq = 50", "checkpoints", "labels"),
        ("delete from milepost.checkpoints where seq = 50", "checkpoints", None),
        ("update milepost.history set outcome = 'stale' where seq = 3", "history", "outcome"),
        ("update milepost.history set chain = '' where seq = 3", "history", "chain"),
        ("delete from milepost.history where seq = 3", "history", None),
        ("update milepost.sessions set live_bytes = live_bytes + 1", "sessions", "live_bytes"),
        ("update milepost.sessions set deleted_at = now()", "sessions", "deleted_at"),
        ("update milepost.partitions set next_offset = next_offset + 1", "partitions", "next_offset"),
        ("update milepost.quarantine set value = '\\x00'", "quarantine", "value"),
        ("delete from milepost.quarantine", "quarantine", None),
        ("insert into milepost.publishers values (gen_random_uuid(), 0, 's', 1, 1, now(), now())", "publishers", None),
    ],
)
def test_each_difference_is_named(twins: tuple[str, str], change: str, table: str, column: str | None) -> None:
    with psycopg.connect(twins[1]) as connection:
        connection.execute("set session_replication_role = replica")
        connection.execute(change)
    found = json.loads(NONE.run("compare", *twins, "--json", expect=1))
    assert found["equal"] is False
    assert {(one["table"], one["column"]) for one in found["differences"]} == {(table, column)}
    assert all(one["key"] for one in found["differences"])
    assert len(found["differences"]) <= 10
    assert digest(twins[0]) != digest(twins[1])


def test_what_hangs_on_the_clock_or_on_an_operator_is_no_difference(twins: tuple[str, str]) -> None:
    with psycopg.connect(twins[1]) as connection:
        connection.execute("set session_replication_role = replica")
        connection.execute("update milepost.history set recorded_at = now() - interval '1 day'")
        connection.execute("update milepost.quarantine set status = 'dismissed', note = 'seen', changed_by = 'me'")
    NONE.run("compare", *twins)
    assert digest(twins[0]) == digest(twins[1])


def test_a_comparison_sees_one_moment(twins: tuple[str, str]) -> None:
    with views.snapshot(twins[0]) as left, views.snapshot(twins[1]) as right:
        with psycopg.connect(twins[1]) as connection:
            connection.execute("delete from milepost.checkpoints")
        assert views.compare(left, right).equal
    NONE.run("compare", *twins, expect=1)


def test_wrong_usage() -> None:
    assert b"expected two databases" in NONE.result("compare", "dbname=x").stderr
    assert NONE.result("compare", "dbname=x").returncode == 2
    assert NONE.result("compare", "dbname=x", "dbname=y", "--digest").returncode == 2
