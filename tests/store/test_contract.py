"""What every store answers: over Postgres, with and without asyncio, and the twin in memory."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from uuid import UUID

import pytest

from milepost.consumer.rules import Outcome
from milepost.consumer.views import Checkpoint, CheckpointInfo
from milepost.schemas import CheckpointCreated, Kind, MilepostError, Position, SessionDeleted, WrongLog
from milepost.schemas.codec.attributes import to_datetime
from tests.store.conftest import Served

RUN = UUID("01890a5d-ac96-774b-bcce-b302099a8057")
OTHER_RUN = UUID("01890a5d-ac96-774b-bcce-b302099a8058")
NOW = datetime(2026, 3, 29, 1, 30, 0, 123_456, tzinfo=UTC)

STATES = [
    b'{"$type":0,"b":1,"a":2}',
    b' {\n"a" : 1.0, "a":1E5,"n":-0, "big":123456789012345678901234567890}\t',
    b'"\\u0000 \\ud800 \\\\ \\/ \\""',
    '{"ключ":"значение 🎉"}'.encode(),
    b"null",
    b"[" * 900 + b"]" * 900,
]


def made(session_id: str = "s", *, tenant_id: str = "acme", **fields: object) -> CheckpointCreated:
    values: dict[str, object] = {"state": b"{}", "created_at": NOW, **fields}
    return CheckpointCreated(tenant_id=tenant_id, session_id=session_id, **values)  # type: ignore[arg-type]


def ids(found: list[CheckpointInfo]) -> list[str]:
    return [info.checkpoint_id for info in found]


@pytest.mark.parametrize("state", STATES, ids=lambda state: ascii(state)[:30])
def test_the_bytes_read_are_the_bytes_published(served: Served, state: bytes) -> None:
    served.publish(made(state=state, checkpoint_id="c"))
    found, latest = served.store.get("acme", "s", "c"), served.store.latest("acme", "s")
    assert found is not None
    assert found.state == state
    assert found.sha256 == sha256(state).digest()
    assert found.size == len(state)
    assert latest == found


def test_a_checkpoint_has_all_that_was_published(served: Served) -> None:
    event = made(
        checkpoint_id="c",
        parent_id="p",
        run_id=RUN,
        step=2**40,
        next_node="tools",
        framework_version="1.2",
        schema_version=7,
        pinned=True,
        labels={"workflow": "w", "kind": "ключ"},
    )
    record = served.log.append(event)
    (position,) = served.take(record)
    expected = Checkpoint(
        "acme",
        "s",
        1,
        "c",
        event.event_id,
        "p",
        RUN,
        2**40,
        "tools",
        NOW,
        "1.2",
        7,
        True,
        2,
        sha256(b"{}").digest(),
        to_datetime(record.log_time),
        {"workflow": "w", "kind": "ключ"},
        position,
        b"{}",
    )
    found = served.store.get("acme", "s", "c")
    assert found == expected
    assert found is not None
    assert found.created_at.tzinfo is UTC
    assert served.store.list("acme", "s") == [CheckpointInfo(*[getattr(expected, f) for f in INFO_FIELDS])]


INFO_FIELDS = CheckpointInfo.__struct_fields__


def test_what_was_left_out_is_none(served: Served) -> None:
    served.publish(made())
    (info,) = served.store.list("acme", "s")
    assert (info.parent_id, info.run_id, info.step, info.next_node) == (None,) * 4
    assert (info.framework_version, info.schema_version, info.pinned, info.labels) == (None, None, False, {})


def test_not_found(served: Served) -> None:
    served.publish(made(checkpoint_id="c", run_id=RUN), made("x", tenant_id="other", checkpoint_id="o", run_id=RUN))
    store = served.store
    for tenant_id, session_id, checkpoint_id in [
        ("acme", "s", "d"),
        ("acme", "t", "c"),
        ("other", "s", "c"),
        ("nobody", "s", "c"),
        ("acme", "x", "o"),
    ]:
        assert store.get(tenant_id, session_id, checkpoint_id) is None
    for tenant_id, session_id in [("acme", "x"), ("other", "s"), ("acme", "S")]:
        assert store.latest(tenant_id, session_id) is None
        assert store.list(tenant_id, session_id) == []
        assert store.session(tenant_id, session_id) is None
        assert store.history(tenant_id, session_id) == []
    assert [info.tenant_id for info in store.list_by_run("acme", RUN)] == ["acme"]
    assert store.list_by_run("nobody", RUN) == []
    assert store.sessions("nobody") == []


@pytest.mark.parametrize("name", ["", "\0", "a\0b", "\ud800", "/c", "c\n", "c" * 10_000, "é" * 513, "'", "%s"])
def test_a_name_that_breaks_the_rules_is_not_found(served: Served, name: str) -> None:
    served.publish(made(checkpoint_id="c", run_id=RUN))
    store = served.store
    assert store.get("acme", "s", name) is None
    assert store.get("acme", name, "c") is None
    assert store.get(name, "s", "c") is None
    assert store.latest("acme", name) is None
    assert store.list("acme", name) == []
    assert store.session("acme", name) is None
    assert store.history("acme", name) == []
    assert store.list_by_run(name, RUN) == []
    assert store.sessions(name) == []


def test_a_name_that_is_no_text_is_an_error(served: Served) -> None:
    store = served.store
    with pytest.raises(TypeError, match="session_id: expected a str, found int"):
        store.latest("acme", 7)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="tenant_id: expected a str, found bytes"):
        store.sessions(b"acme")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="checkpoint_id: expected a str, found UUID"):
        store.get("acme", "s", RUN)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="run_id: expected a UUID, found str"):
        store.list_by_run("acme", str(RUN))  # type: ignore[arg-type]


def test_a_member_of_an_enum_is_its_text(served: Served) -> None:
    class Tenant(StrEnum):
        FIRST = "acme"

    served.publish(made())
    assert served.store.latest(Tenant.FIRST, "s") == served.store.latest("acme", "s") is not None


def test_limits(served: Served) -> None:
    served.publish(*[made() for _ in range(3)])
    store = served.store
    for limit, count in [(None, 3), (1, 1), (3, 3), (2**70, 3)]:
        assert len(store.list("acme", "s", limit=limit)) == count
        assert len(store.history("acme", "s", limit=limit)) == count
    for limit in (0, -1):
        with pytest.raises(ValueError, match=f"limit: expected 1 or more, or None for all, found {limit}"):
            store.list("acme", "s", limit=limit)
        with pytest.raises(ValueError, match="limit"):
            store.sessions("acme", limit=limit)
    with pytest.raises(TypeError, match="limit: expected an int or None, found str"):
        store.history("acme", "s", limit="1")  # type: ignore[arg-type]


def test_latest_goes_by_the_log_not_by_id_or_time(served: Served) -> None:
    served.publish(made(checkpoint_id="2"), made(checkpoint_id="10", created_at=NOW - timedelta(seconds=5)))
    latest = served.store.latest("acme", "s")
    assert latest is not None
    assert (latest.checkpoint_id, latest.seq) == ("10", 2)
    assert ids(served.store.list("acme", "s")) == ["2", "10"]


def test_list(served: Served) -> None:
    runs = [RUN, OTHER_RUN, None]
    served.publish(*[made(checkpoint_id=str(number), run_id=runs[number % 3]) for number in range(1, 8)])
    store = served.store
    assert ids(store.list("acme", "s")) == ["1", "2", "3", "4", "5", "6", "7"]
    assert ids(store.list("acme", "s", newest_first=True)) == ["7", "6", "5", "4", "3", "2", "1"]
    assert ids(store.list("acme", "s", after_seq=4)) == ["5", "6", "7"]
    assert ids(store.list("acme", "s", after_seq=4, limit=2)) == ["5", "6"]
    assert ids(store.list("acme", "s", after_seq=4, limit=2, newest_first=True)) == ["7", "6"]
    assert ids(store.list("acme", "s", run_id=RUN)) == ["3", "6"]
    assert ids(store.list("acme", "s", run_id=OTHER_RUN, after_seq=1, limit=1)) == ["4"]
    assert ids(store.list("acme", "s", run_id=RUN, newest_first=True)) == ["6", "3"]
    assert ids(store.list("acme", "s", after_seq=-1)) == ids(store.list("acme", "s"))
    assert store.list("acme", "s", after_seq=2**70) == []


def test_list_by_run_goes_across_sessions_in_the_log_s_order(served: Served) -> None:
    events = [made(session, checkpoint_id=f"{session}{number}", run_id=RUN) for number in range(3) for session in "bac"]
    served.publish(*events, made("b", checkpoint_id="no", run_id=OTHER_RUN), made("d", checkpoint_id="none"))
    served.publish(made("a", tenant_id="other", checkpoint_id="theirs", run_id=RUN))
    assert ids(served.store.list_by_run("acme", RUN)) == ["b0", "a0", "c0", "b1", "a1", "c1", "b2", "a2", "c2"]
    assert ids(served.store.list_by_run("acme", RUN, limit=4)) == ["b0", "a0", "c0", "b1"]
    assert ids(served.store.list_by_run("other", RUN)) == ["theirs"]


def test_sessions_are_paged_in_byte_order(served: Served) -> None:
    names = ["Z", "a", "a b", "a/b", "b", "é", "\uffee", "𝄞", "10", "9"]
    served.publish(*[made(name) for name in names], made("m", tenant_id="other"))
    in_order = sorted(names, key=str.encode)
    assert [info.session_id for info in served.store.sessions("acme")] == in_order
    paged: list[str] = []
    while page := served.store.sessions("acme", after=paged[-1] if paged else None, limit=3):
        paged += [info.session_id for info in page]
    assert paged == in_order
    with pytest.raises(ValueError, match="after: expected a session id"):
        served.store.sessions("acme", after="\0")


def test_a_hundred_sessions_unless_more_are_wanted(served: Served) -> None:
    served.publish(*[made(f"s{number:03d}") for number in range(102)])
    assert len(served.store.sessions("acme")) == 100
    assert len(served.store.sessions("acme", limit=None)) == 102


def test_a_session_that_was_deleted_stays_without_checkpoints(served: Served) -> None:
    later = NOW + timedelta(seconds=1)
    served.publish(made(checkpoint_id="a", state=b"[1]"), made(checkpoint_id="b", state=b"[2,3]", pinned=True))
    before = served.store.session("acme", "s")
    served.publish(SessionDeleted(tenant_id="acme", session_id="s", deleted_at=later, reason="asked"))
    after = served.store.session("acme", "s")
    assert before is not None
    assert after is not None
    assert (before.newest_checkpoint_id, before.newest_seq, before.last_seq) == ("b", 2, 2)
    assert (before.live_checkpoints, before.live_bytes, before.deleted_at) == (2, 8, None)
    assert (after.newest_checkpoint_id, after.newest_seq, after.last_seq) == (None, None, 3)
    assert (after.live_checkpoints, after.live_bytes) == (0, 0)
    assert (after.deleted_at, after.deleted_seq, after.first_event_time, after.last_event_time) == (
        later,
        3,
        NOW,
        later,
    )
    assert served.store.sessions("acme") == [after]
    assert served.store.latest("acme", "s") is None
    assert served.store.get("acme", "s", "b") is None
    assert served.store.list("acme", "s") == []
    assert [entry.kind for entry in served.store.history("acme", "s")] == [
        Kind.CHECKPOINT_CREATED,
        Kind.CHECKPOINT_CREATED,
        Kind.SESSION_DELETED,
    ]


def test_a_session_goes_on_after_its_deletion(served: Served) -> None:
    later = NOW + timedelta(seconds=1)
    served.publish(
        made(checkpoint_id="c", state=b"1"), SessionDeleted(tenant_id="acme", session_id="s", deleted_at=later)
    )
    served.publish(made(checkpoint_id="late", state=b"2"))
    assert served.store.latest("acme", "s") is None
    served.publish(made(checkpoint_id="c", state=b"3", created_at=later))
    found = served.store.get("acme", "s", "c")
    assert found is not None
    assert (found.state, found.seq) == (b"3", 4)


def test_the_newest_fifty_and_the_pinned_stay(served: Served) -> None:
    events = [made(checkpoint_id=f"{number:03d}", pinned=number == 1) for number in range(60)]
    served.publish(*events[:40])
    served.publish(*events[40:])
    assert ids(served.store.list("acme", "s")) == ["001", *[f"{number:03d}" for number in range(10, 60)]]
    assert served.store.get("acme", "s", "000") is None
    assert served.store.get("acme", "s", "001") is not None
    assert len(served.store.history("acme", "s")) == 60


def test_history_says_what_became_of_each_event(served: Served) -> None:
    first = made(checkpoint_id="c", state=b"1")
    deletion = SessionDeleted(tenant_id="acme", session_id="s", deleted_at=NOW + timedelta(seconds=1), reason="asked")
    served.publish(first, made(checkpoint_id="d"), first, made(checkpoint_id="d", state=b"[0]"))
    served.publish(deletion, made(checkpoint_id="late"))
    found = served.store.history("acme", "s")
    assert [entry.seq for entry in found] == [1, 2, 3, 4, 5, 6]
    assert [entry.outcome for entry in found] == [
        Outcome.APPLIED,
        Outcome.APPLIED,
        Outcome.DUPLICATE,
        Outcome.CONFLICT,
        Outcome.APPLIED,
        Outcome.STALE,
    ]
    assert [entry.position for entry in found] == [served.log.position(record) for record in served.log.records]
    assert (found[4].reason, found[4].sha256, found[4].size, found[4].checkpoint_id) == ("asked", None, 0, None)
    assert found[4].event_time == deletion.deleted_at
    assert found[0].event_id == found[2].event_id == first.event_id
    assert served.store.history("acme", "s", after_seq=2, limit=2) == found[2:4]


def test_history_keeps_what_milepost_does_not_know(served: Served) -> None:
    record = served.log.append(made(checkpoint_id="c", labels={"a": "b"}))
    more = [
        ("ce_datacontent", "ключ".encode()),
        ("ce_publisherid", str(RUN).encode()),
        ("ce_publisherseq", b"9"),
        ("traceparent", b"00-1-2-01"),
        ("tracestate", b"x=y"),
    ]
    headers = [(name, f"{OTHER_RUN}".encode() if name == "ce_id" else value) for name, value in record.headers]
    served.take(record, served.log.append_raw(record.key, record.value, [*headers, *more]))
    plain, full = served.store.history("acme", "s")
    assert (plain.extensions, plain.publisher_id, plain.publisher_seq, plain.labels) == ({}, None, None, {"a": "b"})
    assert full.extensions == {"datacontent": "ключ"}
    assert (full.publisher_id, full.publisher_seq) == (RUN, 9)
    assert (full.traceparent, full.tracestate, full.source) == ("00-1-2-01", "x=y", "/runtimes/test")
    assert full.outcome is Outcome.DUPLICATE
    session = served.store.session("acme", "s")
    assert session is not None
    assert session.chain == full.chain != plain.chain


def test_the_ends_of_time(served: Served) -> None:
    first, last = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    served.publish(made(checkpoint_id="a", created_at=first), made(checkpoint_id="b", created_at=last))
    assert [info.created_at for info in served.store.list("acme", "s")] == [first, last]


def test_wait_for_what_is_there(served: Served) -> None:
    event = made(checkpoint_id="c")
    late = NOW + timedelta(seconds=1)
    positions = served.publish(event, event, made(checkpoint_id="c", state=b"[0]"))
    positions += served.publish(SessionDeleted(tenant_id="acme", session_id="s", deleted_at=late), made())
    positions += served.take(served.log.append_raw(b"no event", b"at all", []))
    for position in positions:
        served.store.wait_for(position, 0)


def test_wait_for_says_how_far_the_view_is(served: Served) -> None:
    (position,) = served.publish(made())
    ahead = Position(position.topic, position.partition, position.offset + 3)
    with pytest.raises(TimeoutError) as raised:
        served.store.wait_for(ahead, 0.01)
    assert str(raised.value) == (
        f"{ahead} was not in the view after 0.01 s: the next record it will take is {position.partition}@1, 3 to go"
    )


@pytest.mark.parametrize("position", [Position("other.events", 0, 0), Position("milepost.events", 99, 0)], ids=str)
def test_wait_for_refuses_another_log(served: Served, position: Position) -> None:
    with pytest.raises(WrongLog, match="expected a position in the log of this view") as raised:
        served.store.wait_for(position, 10)
    assert str(position) in str(raised.value)


def test_wait_for_what_is_to_come(served: Served) -> None:
    record = served.log.append(made())
    thread = threading.Thread(target=served.take, args=[record])
    thread.start()
    served.store.wait_for(served.log.position(record), 30)
    thread.join()
    assert served.store.latest("acme", "s") is not None


def test_wait_for_takes_positions_only(served: Served) -> None:
    with pytest.raises(TypeError, match="position: expected a Position, found str"):
        served.store.wait_for("milepost.events/0@0", 1)  # type: ignore[arg-type]


def test_a_closed_store_reads_no_more(served: Served) -> None:
    served.publish(made())
    assert served.store.latest("acme", "s") is not None
    served.store.close()
    served.store.close()
    with pytest.raises(MilepostError, match="the store was closed"):
        served.store.latest("acme", "s")
