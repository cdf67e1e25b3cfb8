"""Live rows that were removed: all are named, and only a change of a policy that held for their session excuses any."""

from __future__ import annotations

import json

import psycopg
import pytest

from milepost.consumer.audit import VerifyReport, VerifyRequest, verify
from tests.audit.conftest import Filled, edit
from tests.audit.edits import ONE, S

FIRST_THREE = f"delete from milepost.checkpoints where {ONE} and seq in (8, 9, 10)"
FITTING = S % (
    "pruned_seq = 10, live_checkpoints = live_checkpoints - 3, live_bytes = live_bytes - "
    f"(select sum(size) from milepost.history where {ONE} and seq in (8, 9, 10))"
)
HELD = {"tenant_id": "acme", "session_id": "one"}


def missing(report: VerifyReport) -> list[str]:
    """The seqs of the live rows that are named as missing."""
    return [each.key["seq"] for each in report.first if each.table == "checkpoints" and each.found == "absent"]


def changed(database: str, details: dict[str, object], what: str = "retention set", at: str = "now()") -> None:
    """An act, as the trigger of the policies writes it."""
    with psycopg.connect(database) as connection:
        connection.execute(
            f"insert into milepost.operator_acts (what, details, at) values (%s, %s, {at})", [what, json.dumps(details)]
        )


def test_all_of_them_are_named_and_counted(edited: Filled) -> None:
    edit(edited.database, FIRST_THREE, FITTING)
    report = verify(VerifyRequest(database=edited.database))
    assert (missing(report), report.by_field) == (["8", "9", "10"], {"checkpoints": 3})
    report = verify(VerifyRequest(database=edited.database, most=2))
    assert (missing(report), report.deviations) == (["8", "9"], 3)


def test_all_live_rows_of_a_session(edited: Filled) -> None:
    edit(edited.database, f"delete from milepost.checkpoints where {ONE} and not pinned")
    assert missing(verify(VerifyRequest(database=edited.database))) == ["8", "9", "10", "11", "12"]


def test_what_the_head_does_not_know_as_pruned(edited: Filled) -> None:
    """Today's policy would have removed them, and it was changed a moment ago; but the head says that nobody did."""
    edit(edited.database, FIRST_THREE, "update milepost.retention_policies set newest = 2")
    changed(edited.database, {"tenant_id": None, "session_id": None})
    assert missing(verify(VerifyRequest(database=edited.database))) == ["8", "9", "10"]


@pytest.mark.parametrize(
    ("details", "excused"),
    [
        pytest.param({"tenant_id": None, "session_id": None}, True, id="the default"),
        pytest.param({"tenant_id": "acme", "session_id": None}, True, id="the tenant's"),
        pytest.param(HELD, True, id="the session's"),
        pytest.param({"tenant_id": "other", "session_id": None, "before": HELD}, True, id="moved away by hand"),
        pytest.param({"policies": "all"}, True, id="all at once"),
        pytest.param({"tenant_id": "other", "session_id": None}, False, id="another tenant's"),
        pytest.param({"tenant_id": "acme", "session_id": "two"}, False, id="another session's"),
    ],
)
def test_a_later_change_of_a_policy(edited: Filled, details: dict[str, object], excused: bool) -> None:
    edit(edited.database, FIRST_THREE, FITTING)
    changed(edited.database, details)
    assert missing(verify(VerifyRequest(database=edited.database))) == ([] if excused else ["8", "9", "10"])


def test_a_change_of_a_wider_policy_than_the_one_that_holds(edited: Filled) -> None:
    edit(
        edited.database,
        FIRST_THREE,
        FITTING,
        "insert into milepost.retention_policies (tenant_id, newest) values ('acme', 5)",
    )
    changed(edited.database, {"tenant_id": None, "session_id": None})
    assert missing(verify(VerifyRequest(database=edited.database))) == ["8", "9", "10"]


def test_a_change_before_the_view_took_the_rows(edited: Filled) -> None:
    """As in a view that was rebuilt: later than the log's times, earlier than the rows."""
    rebuilt = "update milepost.history set recorded_at = (select max(log_time) + interval '1 h' from milepost.history)"
    edit(edited.database, FIRST_THREE, FITTING, rebuilt)
    act = "(select max(recorded_at) - interval '%s s' from milepost.history)"
    changed(edited.database, {"tenant_id": None, "session_id": None}, at=act % 61)
    assert missing(verify(VerifyRequest(database=edited.database))) == ["8", "9", "10"]
    changed(edited.database, {"tenant_id": None, "session_id": None}, at=act % 59)
    assert missing(verify(VerifyRequest(database=edited.database))) == []
