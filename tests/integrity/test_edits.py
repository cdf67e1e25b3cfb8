"""Each kind of edit, made by SQL behind the product's back: reads with a key name the row and the field."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import LiteralString, NamedTuple

import pytest

from milepost.consumer.store import CheckpointStore
from milepost.schemas import MilepostError, Tampered
from tests.integrity.conftest import Ground
from tests.integrity.ground import KEY, OTHER_KEY, RUN, execute

CHECKPOINTS, SESSIONS = "milepost.checkpoints", "milepost.sessions"
Reader = Callable[[CheckpointStore], object]

READS: dict[str, Reader] = {
    "get c8": lambda store: store.get("acme", "trip", "c8"),
    "get c6": lambda store: store.get("acme", "trip", "c6"),
    "get c3": lambda store: store.get("acme", "trip", "c3"),
    "get nothing": lambda store: store.get("acme", "trip", "never"),
    "latest": lambda store: store.latest("acme", "trip"),
    "list": lambda store: store.list("acme", "trip", after_seq=100),
    "list one": lambda store: store.list("acme", "trip", limit=1),
    "list_by_run": lambda store: store.list_by_run("acme", RUN, limit=1),
    "session": lambda store: store.session("acme", "trip"),
    "sessions": lambda store: store.sessions("acme"),
}
WHOLE = ("get c3", "get nothing", "list", "list one", "list_by_run")
"""Reads that look at all live rows of the session."""
WITH_8 = ("get c8", "latest", *WHOLE)

AT_8 = "tenant_id = 'acme' and session_id = 'trip' and seq = 8"
AT_6 = "tenant_id = 'acme' and session_id = 'trip' and seq = 6"
TRIP = "tenant_id = 'acme' and session_id = 'trip'"
REST = (
    "parent_id, run_id, step, next_node, created_at, framework_version, schema_version, labels, pinned, size, sha256, log_time, "
    'partition, "offset", state, mac, mac_key'
)
COPIED = f"checkpoint_id, event_id, {REST}"
INSERT = f"insert into milepost.checkpoints (tenant_id, session_id, seq, {COPIED}) select tenant_id"
FORGED = f"{INSERT}, session_id, 9, 'c9', event_id, {REST} from milepost.checkpoints where {AT_8}"
OLD_3 = f"{INSERT}, session_id, seq, {COPIED} from before.checkpoints where {TRIP} and seq = 3"


class Edit(NamedTuple):
    """What was done; which reads notice; what they name."""

    sql: LiteralString
    reads: tuple[str, ...]
    table: str
    field: str
    seq: str | None = None


EDITS: dict[str, Edit] = {
    "a byte of a state": Edit(
        f"update milepost.checkpoints set state = '{{\"step\":9}}' where {AT_8}",
        ("get c8", "latest"),
        *(CHECKPOINTS, "state", "8"),
    ),
    "white space of a state": Edit(
        f"update milepost.checkpoints set state = (state::text || ' ')::json where {AT_8}",
        ("get c8", "latest"),
        *(CHECKPOINTS, "state", "8"),
    ),
    "a state and its digest": Edit(
        f"update milepost.checkpoints set state = '[8,9,10,1]', sha256 = sha256('[8,9,10,1]') where {AT_8}",
        WITH_8,
        *(CHECKPOINTS, "sha256", "8"),
    ),
    "the newest two deleted": Edit(
        f"delete from milepost.checkpoints where {TRIP} and seq in (7, 8)",
        WITH_8,
        *(CHECKPOINTS, "row", "8"),
    ),
    "a middle one deleted": Edit(
        f"delete from milepost.checkpoints where {AT_6}",
        ("get c6", *WHOLE),
        *(CHECKPOINTS, "row", "6"),
    ),
    "all deleted": Edit(
        f"delete from milepost.checkpoints where {TRIP}",
        ("get c8", "get c6", "get c3", "get nothing", "latest", "list", "list one"),
        *(CHECKPOINTS, "row", "8"),
    ),
    "a forged newest": Edit(FORGED, ("latest", *WHOLE), *(CHECKPOINTS, "row", "9")),
    "a forged newest that the head names": Edit(
        f"{FORGED}; update milepost.sessions set newest_seq = 9, newest_checkpoint_id = 'c9', last_seq = 9, "
        f"live_checkpoints = live_checkpoints + 1 where {TRIP}",
        (*READS,),
        *(SESSIONS, "last_seq"),
    ),
    "a genuine row of another session": Edit(
        f"delete from milepost.checkpoints where {AT_8}; {INSERT}, 'trip', seq, {COPIED} from milepost.checkpoints "
        "where tenant_id = 'acme' and session_id = 'other' and seq = 8",
        WITH_8,
        *(CHECKPOINTS, "event_id", "8"),
    ),
    "an old genuine content in the newest slot": Edit(
        f"delete from milepost.checkpoints where {AT_8}; {INSERT}, session_id, 8, {COPIED} from before.checkpoints "
        f"where {TRIP} and seq = 3",
        WITH_8,
        *(CHECKPOINTS, "checkpoint_id", "8"),
    ),
    "a pruned row put back": Edit(OLD_3, WHOLE, *(CHECKPOINTS, "seq", "3")),
    "a pruned row of the same size for a live one": Edit(
        f"delete from milepost.checkpoints where {AT_6}; {OLD_3}",
        ("get c6", *WHOLE),
        *(CHECKPOINTS, "seq", "3"),
    ),
    "a row renamed": Edit(
        f"update milepost.checkpoints set checkpoint_id = 'never' where {AT_8}",
        WITH_8,
        *(CHECKPOINTS, "checkpoint_id", "8"),
    ),
    "a row moved to another tenant": Edit(
        f"update milepost.checkpoints set tenant_id = 'other' where {AT_8}", WITH_8, *(CHECKPOINTS, "row", "8")
    ),
    "a head deleted": Edit(
        f"delete from milepost.sessions where {TRIP}",
        tuple(name for name in READS if name != "sessions"),
        *(SESSIONS, "row"),
    ),
    "the MAC of a row taken away": Edit(
        f"update milepost.checkpoints set mac = null where {AT_8}", WITH_8, *(CHECKPOINTS, "mac", "8")
    ),
    "the MACs of a session taken away": Edit(
        f"update milepost.checkpoints set mac = null, mac_key = null where {TRIP}; "
        f"update milepost.sessions set mac = null, mac_key = null where {TRIP}",
        (*READS,),
        *(SESSIONS, "mac"),
    ),
    "a byte of a MAC": Edit(
        f"update milepost.checkpoints set mac = set_byte(mac, 5, get_byte(mac, 5) # 1) where {AT_8}",
        WITH_8,
        *(CHECKPOINTS, "mac", "8"),
    ),
    "a key that is not here": Edit(
        f"update milepost.checkpoints set mac_key = '\\x0102030405060708' where {AT_8}",
        WITH_8,
        *(CHECKPOINTS, "mac_key", "8"),
    ),
}

COLUMNS: dict[str, LiteralString] = {
    "labels": "labels = jsonb_set(labels, '{workflow}', '\"other\"')",
    "parent_id": "parent_id = null",
    "run_id": "run_id = null",
    "step": "step = 80",
    "next_node": "next_node = ''",
    "created_at": "created_at = created_at + interval '1 microsecond'",
    "log_time": "log_time = 'infinity'",
    "framework_version": "framework_version = null",
    "schema_version": "schema_version = 4",
    "pinned": "pinned = true",
    "size": "size = size + 1",
    "partition": "partition = 77",
    "offset": '"offset" = 77',
    "event_id": "event_id = gen_random_uuid()",
}
HEAD_COLUMNS: dict[str, LiteralString] = {
    "partition": "partition = 77",
    "newest_seq": "newest_seq = 7",
    "newest_checkpoint_id": "newest_checkpoint_id = 'c7'",
    "first_event_time": "first_event_time = '-infinity'",
    "last_event_time": "last_event_time = last_event_time + interval '1 microsecond'",
    "live_checkpoints": "live_checkpoints = 5",
    "live_bytes": "live_bytes = 1",
    "deleted_at": "deleted_at = now()",
    "deleted_seq": "deleted_seq = 8",
    "max_event_id": "max_event_id = gen_random_uuid()",
    "max_checkpoint_id": "max_checkpoint_id = null",
    "chain": "chain = sha256(chain)",
    "pruned_seq": "pruned_seq = 2",
    "mac": "mac = sha256(mac)",
}


def assert_named(ground: Ground, reads: tuple[str, ...], table: str, field: str, seq: str | None) -> None:
    """Each of these reads says that, and all others find nothing wrong."""
    for name, read in READS.items():
        if name not in reads:
            read(ground.store)
            continue
        with pytest.raises(Tampered) as raised:
            read(ground.store)
        found = raised.value
        assert (found.table, found.field, found.key.get("seq")) == (table, field, seq), f"{name}: {found}"
        assert found.key["tenant_id"] == "acme"
        assert found.key["session_id"] == "trip"


@pytest.mark.parametrize("what", EDITS)
def test_an_edit_is_named(ground: Ground, what: str) -> None:
    edit = EDITS[what]
    execute(ground.database, edit.sql)
    assert_named(ground, edit.reads, edit.table, edit.field, edit.seq)


@pytest.mark.parametrize("column", COLUMNS)
def test_a_changed_column_of_a_row_is_named(ground: Ground, column: str) -> None:
    execute(ground.database, f"update milepost.checkpoints set {COLUMNS[column]} where {AT_8}")
    assert_named(ground, WITH_8, CHECKPOINTS, column, "8")


@pytest.mark.parametrize("column", HEAD_COLUMNS)
def test_a_changed_column_of_a_head_is_named(ground: Ground, column: str) -> None:
    execute(ground.database, f"update milepost.sessions set {HEAD_COLUMNS[column]} where {TRIP}")
    assert_named(ground, (*READS,), SESSIONS, column, None)


def test_labels_that_are_none(ground: Ground) -> None:
    execute(ground.database, f"update milepost.checkpoints set labels = '{{\"workflow\": 1}}' where {AT_8}")
    assert_named(ground, WITH_8, CHECKPOINTS, "labels", "8")


def test_where_history_was_changed_as_well_the_mac_is_named(ground: Ground) -> None:
    execute(ground.database, f"update milepost.checkpoints set step = 80 where {AT_8}")
    history = "update milepost.history set step = {} where " + AT_8
    replica: LiteralString = "set session_replication_role = replica"
    execute(ground.database, replica, history.format(80))
    try:
        assert_named(ground, WITH_8, CHECKPOINTS, "mac", "8")
    finally:
        execute(ground.database, replica, history.format(8))


def test_another_topic(ground: Ground) -> None:
    execute(ground.database, "update milepost.partitions set topic = 'another'")
    try:
        for read in READS.values():
            with pytest.raises(Tampered, match=r"topic: expected milepost\.events as in history, found another"):
                read(ground.store)
    finally:
        execute(ground.database, "update milepost.partitions set topic = 'milepost.events'")


def test_two_states_swapped(ground: Ground) -> None:
    execute(
        ground.database,
        "update milepost.checkpoints c set state = o.state from milepost.checkpoints o where c.tenant_id = 'acme' "
        "and c.session_id = 'trip' and o.tenant_id = 'acme' and o.session_id = 'trip' and c.seq + o.seq = 14 "
        "and c.seq in (6, 8)",
    )
    for checkpoint_id in ("c6", "c8"):
        with pytest.raises(Tampered, match=f"{checkpoint_id}: state: expected a state with the SHA-256"):
            ground.store.get("acme", "trip", checkpoint_id)


def test_a_head_that_was_genuine_once(ground: Ground) -> None:
    execute(
        ground.database,
        f"delete from milepost.sessions where {TRIP}",
        f"insert into milepost.sessions select * from before.sessions where {TRIP}",
    )
    for name, read in READS.items():
        if name not in ("session", "sessions"):
            with pytest.raises(Tampered, match=r"seq: expected (at most 4, the session's last event|none above 4)"):
                read(ground.store)


def test_what_deletion_took_cannot_come_back(ground: Ground) -> None:
    execute(
        ground.database,
        f"insert into milepost.checkpoints (tenant_id, session_id, seq, {COPIED}) select tenant_id, session_id, seq, {COPIED} "
        "from before.checkpoints where session_id = 'gone'",
    )
    expected = "checkpoint_id=c1: seq: expected more than 2, the session's deletion, found 1"
    with pytest.raises(Tampered, match=expected):
        ground.store.list("acme", "gone")
    with pytest.raises(Tampered, match=expected):
        ground.store.get("acme", "gone", "c1")
    assert ground.store.latest("acme", "empty") is None


def test_the_error_says_all_and_can_be_pickled(ground: Ground) -> None:
    execute(ground.database, f"update milepost.checkpoints set step = 80, parent_id = null where {AT_8}")
    with pytest.raises(Tampered) as raised:
        ground.store.latest("acme", "trip")
    assert str(raised.value) == (
        "milepost.checkpoints tenant_id=acme session_id=trip seq=8 checkpoint_id=c8: parent_id: expected c7 as in history, "
        "found null; changed as well: step"
    )
    again = pickle.loads(pickle.dumps(raised.value))
    assert isinstance(again, MilepostError)
    assert str(again) == str(raised.value)


def test_a_store_without_keys_reads_as_before(ground: Ground) -> None:
    execute(ground.database, f"update milepost.checkpoints set step = 80, mac = null where {AT_8}")
    with CheckpointStore(ground.database) as store:
        found = store.latest("acme", "trip")
    assert found is not None
    assert found.step == 80


def test_another_key_fits_nothing(ground: Ground) -> None:
    unknown = pytest.raises(Tampered, match=f"mac_key: expected a key that was given .*found {KEY.id.hex()}")
    with CheckpointStore(ground.database, integrity_keys=[OTHER_KEY]) as store, unknown:
        store.latest("acme", "trip")
    with CheckpointStore(ground.database, integrity_keys=[OTHER_KEY, KEY]) as store:
        assert store.latest("acme", "trip") is not None
