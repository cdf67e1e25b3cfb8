"""Edits made behind the product's back: each is noticed, and named by table, key and field."""

from __future__ import annotations

from contextlib import closing

import pytest

from milepost.consumer.audit import VerifyReport, VerifyRequest, verify
from milepost.consumer.audit.rows import entry, read
from milepost.consumer.audit.sessions import Range
from milepost.consumer.chain import START as BEFORE
from milepost.consumer.chain import extend
from milepost.consumer.database import connect
from milepost.consumer.integrity import IntegrityKey, Keyring
from milepost.consumer.materializer import Materializer
from milepost.schemas import DEFAULT_TOPIC, InvalidSetting, Position
from tests.audit.conftest import Filled, edit
from tests.audit.edits import DIGEST, ONE, SEEN_BY_ITSELF, SEEN_BY_THE_LOG, STATE, C, S
from tests.audit.fake_log import against, in_parts, sorted_first
from tests.fixtures.view import PARTITIONS, bind_log


def found(report: VerifyReport) -> set[str]:
    """The fields and tables that deviate."""
    assert report.deviations == sum(report.by_field.values()) >= len(report.first) > 0
    assert not report.verified
    assert all(deviation.key and deviation.expected != deviation.found for deviation in report.first)
    return set(report.by_field)


@pytest.mark.parametrize(("statements", "expected"), [pytest.param(*edit[1:], id=edit[0]) for edit in SEEN_BY_ITSELF])
def test_the_view_against_itself(
    edited: Filled, statements: list[str], expected: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(edited.database, *statements)
    report = verify(VerifyRequest(database=edited.database))
    assert found(report) == expected
    in_parts(monkeypatch)
    for processes in (2, 7):
        assert_same(verify(VerifyRequest(database=edited.database, processes=processes)), report)


@pytest.mark.parametrize(("statements", "expected"), [pytest.param(*edit[1:], id=edit[0]) for edit in SEEN_BY_THE_LOG])
def test_the_view_against_the_log(
    edited: Filled, statements: list[str], expected: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(edited.database, *statements)
    report = against(monkeypatch, edited.database, edited.records)
    assert found(report) == expected
    in_parts(monkeypatch)
    request = VerifyRequest(database=edited.database, against_log=True, processes=3)
    assert_same(against(monkeypatch, edited.database, edited.records, request=request), report)


def assert_same(several: VerifyReport, one: VerifyReport) -> None:
    """What several processes find, one does, and nothing else."""
    assert (several.by_field, sorted_first(several)) == (one.by_field, sorted_first(one))
    assert (several.rows, several.checked, several.notes) == (one.rows, one.checked, one.notes)
    assert sorted(several.unchecked) == sorted(one.unchecked)


def test_who_makes_history_fit_again_is_noticed_by_the_log(edited: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    """State, digests and times changed everywhere, and the whole chain computed anew."""
    edit(
        edited.database,
        C % f"{STATE}, {DIGEST}, created_at = created_at + interval '1 s'",
        f"update milepost.history set {DIGEST}, event_time = event_time + interval '1 s' where {ONE} and seq = 11",
    )
    rechain(edited.database)
    assert verify(VerifyRequest(database=edited.database)).first == []
    report = against(monkeypatch, edited.database, edited.records)
    assert found(report) == {"history.sha256", "history.event_time"}
    key = {"tenant_id": "acme", "session_id": "one", "seq": "11"}
    assert [deviation.key for deviation in report.first] == [key, key]


def test_an_event_that_was_never_in_the_log_and_one_that_is_gone(
    edited: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last event of a session taken out of every table, as if the log had not had it."""
    late = "session_id = 'late'"
    edit(
        edited.database,
        *(f"delete from milepost.{table} where {late}" for table in ("history", "sessions", "checkpoints")),
        "update milepost.partitions set events = events - 1, applied = applied - 1, state_bytes = state_bytes - 1 "
        "where partition = (select partition from milepost.quarantine where status = 'retried')",
        "delete from milepost.quarantine where status = 'retried'",
    )
    report = against(monkeypatch, edited.database, edited.records)
    assert report.by_field["history"] == 1
    missing = next(deviation for deviation in report.first if deviation.table == "history")
    assert (missing.key["session_id"], missing.expected, missing.found) == ("late", "present", "absent")
    shorter = against(monkeypatch, edited.database, edited.records[:-2])
    assert "partitions.next_offset" in shorter.by_field


def test_only_some_deviations_are_kept_and_all_are_counted(edited: Filled) -> None:
    edit(edited.database, "update milepost.history set chain = sha256('x')")
    report = verify(VerifyRequest(database=edited.database, most=3))
    assert (len(report.first), report.deviations > 20) == (3, True)


def test_from_a_position_on_what_stands_before_is_only_looked_at(edited: Filled) -> None:
    """An edit of an old event is not seen; those of later ones are, and of the live rows and the head of their sessions."""
    partition = edited.records[0].partition
    since = [Position("", number, 0 if number != partition else 9) for number in range(PARTITIONS)]
    request = VerifyRequest(database=edited.database, since=since)
    assert verify(request).first == []
    edit(edited.database, f"update milepost.history set chain = '' where {ONE} and seq = 5")
    assert verify(request).first == []
    edit(
        edited.database,
        f"update milepost.history set reason = 'x' where {ONE} and seq = 12",
        f"update milepost.checkpoints set labels = '{{}}' where {ONE} and seq = 3",
        f"update milepost.sessions set first_event_time = now(), live_bytes = 1 where {ONE}",
    )
    fields = {"history.chain", "checkpoints.labels", "sessions.first_event_time", "sessions.live_bytes"}
    assert found(verify(request)) == fields
    with pytest.raises(InvalidSetting, match="where the view stands"):
        verify(VerifyRequest(database=edited.database, since=[Position("", 0, 10_000)]))


def test_with_an_integrity_key(database: str, filled: Filled) -> None:
    keys = Keyring([IntegrityKey(bytes(range(32)))])
    bind_log(database)
    with closing(Materializer(database, DEFAULT_TOPIC, keys)) as materializer:
        materializer.take(range(PARTITIONS))
        materializer.apply(filled.records)
    request = VerifyRequest(database=database, keys=keys)
    report = verify(request)
    assert (report.first, "macs" in report.checked) == ([], True)
    edit(database, S % "mac = sha256('x')", C % "mac = null")
    assert found(verify(request)) == {"sessions.mac", "checkpoints.mac"}
    assert verify(VerifyRequest(database=database)).verified
    unsigned = verify(VerifyRequest(database=filled.database, keys=keys))
    assert found(unsigned) == {"sessions.mac", "checkpoints.mac"}


def rechain(database: str) -> None:
    """Compute all chains anew, and make the heads fit."""
    chain = BEFORE
    with closing(connect(database)) as connection, connection.transaction():
        connection.execute("set session_replication_role = replica")
        for row in list(read(connection, "history", Range().parameters)):
            event = entry(row)
            tenant_id, session_id = event.event.tenant_id, event.event.session_id
            chain = BEFORE if event.seq == 1 else chain
            chain = extend(chain, event.event, event.seq, event.outcome)
            where = [chain, tenant_id, session_id]
            connection.execute(
                "update milepost.history set chain = %s where tenant_id = %s and session_id = %s and seq = %s",
                [*where, event.seq],
            )
            connection.execute(
                "update milepost.sessions set chain = %s where tenant_id = %s and session_id = %s", where
            )
