"""How Postgres finds what a read asks for: by index, and without touching a state that is not asked for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from random import Random
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import sql

from milepost.consumer import reading
from milepost.consumer.reading import Read
from milepost.schemas import CheckpointCreated
from tests.fixtures.view import FakeLog, PostgresView

RUN = UUID(int=7)
READS: dict[str, tuple[Read[Any], *tuple[str, ...]]] = {
    "get": (reading.get("acme", "s7", "c3-7"), "checkpoints_by_id"),
    "latest": (reading.latest("acme", "s7"), "checkpoints_pkey"),
    "list": (reading.list_session("acme", "s7", None, 0, None, False), "checkpoints_pkey"),
    "list, newest first": (reading.list_session("acme", "s7", None, 0, 5, True), "checkpoints_pkey"),
    "list, one run": (
        reading.list_session("acme", "s7", RUN, 3, None, False),
        "checkpoints_pkey",
        "checkpoints_by_run",
    ),
    "list_by_run": (reading.list_by_run("acme", RUN, None), "checkpoints_by_run"),
    "session": (reading.session("acme", "s7"), "sessions_pkey"),
    "sessions": (reading.sessions("acme", "s7", 100), "sessions_pkey"),
    "history": (reading.history("acme", "s7", 0, None), "history_pkey"),
}


def plan(connection: psycopg.Connection[Any], read: Read[Any]) -> dict[str, Any]:
    """What Postgres does for a read, as a prepared statement."""
    names: list[str] = []

    def number(match: re.Match[str]) -> str:
        if match[1] not in names:
            names.append(match[1])
        return f"${names.index(match[1]) + 1}"

    text = re.sub(r"%\((\w+)\)b", number, read.statement)
    values = sql.SQL(", ").join(sql.Literal(read.parameters[name]) for name in names)
    connection.execute(f"prepare a_read as {text}".encode())
    explain = sql.SQL("explain (analyze, buffers, verbose, format json) execute a_read({})").format(values)
    row = connection.execute(explain).fetchone()
    connection.execute("deallocate a_read")
    assert row is not None
    found = row[0][0]["Plan"]
    assert isinstance(found, dict)
    return found


def nodes(found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield found
    for part in found.get("Plans", ()):
        yield from nodes(part)


@pytest.fixture
def connection(database: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database, autocommit=True, prepare_threshold=None) as connection:
        yield connection


@pytest.fixture
def many(filled: PostgresView, log: FakeLog) -> None:
    """A view of 4,000 checkpoints in 400 sessions."""
    for number in range(10):
        events = [
            CheckpointCreated(
                tenant_id="acme",
                session_id=f"s{session}",
                state=b"{}",
                checkpoint_id=f"c{number}-{session}",
                run_id=UUID(int=session // 2 + 4),
            )
            for session in range(400)
        ]
        filled.apply([log.append(event) for event in events])


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("mode", ["force_generic_plan", "force_custom_plan"])
def test_reads_go_by_index(connection: psycopg.Connection[Any], mode: str) -> None:
    connection.execute("analyze")
    connection.execute("select set_config('plan_cache_mode', %s, false)", [mode])
    connection.execute("set enable_seqscan = off")  # which a table of so few pages would deserve
    for name, (read, *indexes) in READS.items():
        found = list(nodes(plan(connection, read)))
        scanned = {node["Relation Name"] for node in found if node["Node Type"] == "Seq Scan"}
        assert scanned <= {"partitions"}, f"{name}: {json.dumps(found[0], indent=1)}"
        assert not {node.get("Index Name") for node in found}.isdisjoint(indexes), (
            f"{name}: {json.dumps(found[0], indent=1)}"
        )
        assert found[0]["Actual Rows"] > 0, name
        touched = found[0]["Shared Hit Blocks"] + found[0]["Shared Read Blocks"]
        assert touched < 150, name


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("name", READS)
def test_each_page_is_in_the_index_s_order(connection: psycopg.Connection[Any], name: str) -> None:
    """Nothing is sorted, so that a page costs what it holds."""
    connection.execute("analyze")
    connection.execute("set enable_bitmapscan = off")
    connection.execute("set plan_cache_mode = force_generic_plan")
    assert "Sort" not in {node["Node Type"] for node in nodes(plan(connection, READS[name][0]))}


def test_a_list_reads_no_state(connection: psycopg.Connection[Any], filled: PostgresView, log: FakeLog) -> None:
    choose = Random(1)
    events = [
        CheckpointCreated(
            tenant_id="acme",
            session_id="s7",
            state=b'"%s"' % choose.randbytes(200_000).hex().encode(),
            checkpoint_id=f"c{number}-7",
            run_id=RUN,
        )
        for number in range(20)
    ]
    filled.apply([log.append(event) for event in events])
    for name in ("list", "list, newest first", "list, one run", "list_by_run", "history"):
        found = plan(connection, READS[name][0])
        assert found["Actual Rows"] > 3
        assert found["Shared Hit Blocks"] + found["Shared Read Blocks"] < 60, name
        assert not any("c.state" in column for column in found["Output"]), name
    with_state = plan(connection, READS["get"][0])
    assert any("c.state" in column for column in with_state["Output"])
    assert with_state["Shared Hit Blocks"] + with_state["Shared Read Blocks"] > 15
