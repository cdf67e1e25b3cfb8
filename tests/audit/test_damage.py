"""Rows that the product cannot have written, and protections that are switched off: named, or refused in plain words."""

from __future__ import annotations

import msgspec
import psycopg
import pytest

from milepost.consumer.audit import VerifyRequest, verify
from milepost.consumer.replay.plan import ReplayState
from milepost.schemas import WrongView
from tests.audit.conftest import Filled, edit
from tests.audit.edits import ONE
from tests.audit.fake_log import against
from tests.fixtures.view import PARTITIONS


def by_hand(database: str, *statements: str) -> None:
    """Statements of a superuser, whatever they change."""
    with psycopg.connect(database) as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.mark.parametrize("with_log", [False, True])
@pytest.mark.parametrize("number", ["99", None])
def test_a_partition_that_is_missing_or_out_of_range(
    edited: Filled, monkeypatch: pytest.MonkeyPatch, number: str | None, with_log: bool
) -> None:
    where = "where partition = 0"
    statement = f"update milepost.partitions set partition = {number} {where}"
    edit(edited.database, statement if number is not None else f"delete from milepost.partitions {where}")
    if with_log:
        report = against(monkeypatch, edited.database, edited.records)
    else:
        report = verify(VerifyRequest(database=edited.database))
    named = [(each.key["partition"], each.field, each.expected, each.found) for each in report.first[:2]]
    missing = ("0", None, "present", "absent")
    wrong = (str(number), "partition", f"0 to {PARTITIONS - 1}", str(number))
    assert named[: 1 if number is None else 2] == ([missing] if number is None else [wrong, missing])


@pytest.mark.parametrize("seq", [5, 13])
def test_a_chain_that_was_taken_away(edited: Filled, seq: int) -> None:
    by_hand(edited.database, "alter table milepost.history alter chain drop not null")
    edit(edited.database, f"update milepost.history set chain = null where {ONE} and seq = {seq}")
    report = verify(VerifyRequest(database=edited.database))
    assert (report.first[0].field, report.first[0].key["seq"], report.first[0].found) == ("chain", str(seq), "null")


def test_no_version_of_the_policies(edited: Filled) -> None:
    edit(edited.database, "delete from milepost.retention_version")
    with pytest.raises(WrongView, match="expected the version of the retention policies"):
        verify(VerifyRequest(database=edited.database))


@pytest.mark.parametrize("text", ["{}", "[]", "7"])
def test_a_replay_that_says_nothing(edited: Filled, text: str) -> None:
    edit(edited.database, f"update milepost.view set replay = '{text}'")
    with pytest.raises(WrongView, match=r"expected in milepost\.view\.replay what"):
        verify(VerifyRequest(database=edited.database))


@pytest.mark.parametrize(("session_id", "part"), [(None, "tenant acme"), ("one", "tenant acme, session one")])
def test_a_view_of_a_part_says_so(edited: Filled, session_id: str | None, part: str) -> None:
    state = ReplayState({}, False, "acme", session_id, complete=True)
    edit(edited.database, f"update milepost.view set replay = '{msgspec.json.encode(state).decode()}'")
    assert verify(VerifyRequest(database=edited.database)).notes[0].startswith(f"the view holds {part} alone")


NO_SECURITY = "row-level security"
OFF = [
    (
        "alter table milepost.history disable trigger history_is_append_only",
        "history",
        "trigger history_is_append_only",
    ),
    ("drop trigger history_is_append_only on milepost.history", "history", "trigger history_is_append_only"),
    *(
        (f"alter table milepost.{table} {how} row level security", table, NO_SECURITY)
        for table in ("sessions", "checkpoints", "history")
        for how in ("disable", "no force")
    ),
    ("grant update on milepost.history to milepost_writer", "history", "no update by milepost_writer"),
    ("grant update (chain) on milepost.history to milepost_writer", "history", "no update by milepost_writer"),
    ("grant delete on milepost.history to milepost_reader", "history", "no delete by milepost_reader"),
]


@pytest.mark.parametrize(("statement", "table", "protection"), OFF)
def test_protections_that_are_switched_off(edited: Filled, statement: str, table: str, protection: str) -> None:
    by_hand(edited.database, statement)
    report = verify(VerifyRequest(database=edited.database))
    assert report.by_field == {f"{table}.protection": 1}
    assert (report.first[0].table, report.first[0].key) == (table, {"protection": protection})


def test_what_is_granted_to_everybody(edited: Filled) -> None:
    assert "protections" in verify(VerifyRequest(database=edited.database)).checked
    by_hand(edited.database, "grant truncate on milepost.history to public")
    report = verify(VerifyRequest(database=edited.database))
    assert {each.key["protection"] for each in report.first} == {
        f"no truncate by {name}" for name in ("public", "milepost_reader", "milepost_writer")
    }
