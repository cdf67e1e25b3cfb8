"""Signing a view anew: for the first time, with another key, after a stop; and what refuses it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import LiteralString

import psycopg
import pytest

from milepost.consumer.database import Connection, connect
from milepost.consumer.integrity import IntegrityKey, Keyring
from milepost.consumer.integrity.rekey import Rekey, Rekeyed
from milepost.consumer.materializer import become_writer
from milepost.consumer.store import CheckpointStore
from milepost.schemas import Fenced, Tampered, WrongView
from tests.fixtures.view import PARTITIONS, FakeLog
from tests.integrity.conftest import Ground
from tests.integrity.ground import KEY, OTHER_KEY, checkpoint, execute
from tests.integrity.test_edits import AT_6
from tests.integrity.test_writers import a_trip, taken


@contextmanager
def writer(database: str) -> Iterator[Connection]:
    with closing(connect(database)) as connection:
        become_writer(connection)
        yield connection


def rekey(database: str, *keys: IntegrityKey, unsigned: bool = False) -> Rekeyed:
    with writer(database) as connection:
        return Rekey(connection, Keyring(keys), unsigned=unsigned).run(lambda: False, lambda _: None)


def keys_in_use(database: str) -> set[bytes | None]:
    with psycopg.connect(database) as connection:
        rows = connection.execute(
            "select mac_key from milepost.sessions union select mac_key from milepost.checkpoints"
        )
        return {key_id for (key_id,) in rows}


def two_sessions(database: str, *keys: IntegrityKey) -> FakeLog:
    log = a_trip(database, *keys)
    with closing(taken(database, *keys)) as consumer:
        consumer.apply([log.append(checkpoint(number, "second")) for number in (1, 2)])
    return log


def test_a_view_is_signed_for_the_first_time_and_then_with_another_key(database: str) -> None:
    two_sessions(database)
    with pytest.raises(WrongView, match="allow it by --unsigned"):
        rekey(database, KEY)
    assert rekey(database, KEY, unsigned=True) == Rekeyed(2, 6, 2, 6, complete=True)
    assert rekey(database, OTHER_KEY, KEY) == Rekeyed(2, 6, 2, 6, complete=True)
    assert rekey(database, OTHER_KEY) == Rekeyed(2, 6, 0, 0, complete=True)
    with CheckpointStore(database, integrity_keys=[OTHER_KEY]) as store:
        assert [info.seq for info in store.list("acme", "trip")] == [2, 4, 5, 6]
    with psycopg.connect(database) as connection:
        acts = connection.execute("select what, details ->> 'mac_key' from milepost.operator_acts where what = 'rekey'")
        assert acts.fetchall() == [("rekey", key.id.hex()) for key in (KEY, OTHER_KEY, OTHER_KEY)]


def test_one_that_was_stopped_goes_on(database: str) -> None:
    two_sessions(database, KEY)
    with writer(database) as connection:
        seen: list[int] = []
        stopped = Rekey(connection, Keyring([OTHER_KEY, KEY])).run(
            lambda: bool(seen), lambda done: seen.append(done.sessions)
        )
    assert (stopped.complete, stopped.sessions) == (False, 1)
    assert keys_in_use(database) == {KEY.id, OTHER_KEY.id}
    rest = rekey(database, OTHER_KEY, KEY)
    assert rest == Rekeyed(2, 6, 1, 6 - stopped.checkpoints, complete=True)
    assert keys_in_use(database) == {OTHER_KEY.id}


EDITS: dict[LiteralString, str] = {
    f"update milepost.checkpoints set step = 80 where {AT_6}": "seq=6 checkpoint_id=c6: mac: ",
    f"update milepost.checkpoints set mac = null, mac_key = null where {AT_6}": "seq=6 checkpoint_id=c6: mac: ",
    "update milepost.sessions set mac = null, mac_key = null where session_id = 'trip'": "mac: expected no MAC",
    "update milepost.sessions set live_bytes = 1 where session_id = 'trip'": "session_id=trip: mac: ",
    f"delete from milepost.checkpoints where {AT_6}": "row: expected 6 live checkpoints",
}


@pytest.mark.parametrize("edit", EDITS)
def test_what_was_changed_is_not_signed(ground: Ground, edit: LiteralString) -> None:
    execute(ground.database, edit)
    with pytest.raises(Tampered, match=EDITS[edit]):
        rekey(ground.database, OTHER_KEY, KEY, unsigned=True)
    with pytest.raises(WrongView if "sessions set mac = null" in edit else Tampered):
        rekey(ground.database, OTHER_KEY, KEY)
    with psycopg.connect(ground.database) as connection:
        heads = connection.execute("select mac_key from milepost.sessions where session_id = 'trip'").fetchall()
    assert heads in ([(KEY.id,)], [(None,)])


def test_beside_a_consumer_that_has_both_keys(database: str) -> None:
    log = two_sessions(database, KEY)
    with closing(taken(database, OTHER_KEY, KEY)) as consumer:
        consumer.apply([log.append(checkpoint(7))])
        assert rekey(database, OTHER_KEY, KEY).complete
        consumer.apply([log.append(checkpoint(8)), log.append(checkpoint(3, "second"))])
    with CheckpointStore(database, integrity_keys=[OTHER_KEY]) as store:
        assert [info.seq for info in store.list("acme", "trip")] == [2, 6, 7, 8]


def test_beside_a_consumer_that_lacks_the_new_key(database: str) -> None:
    log = two_sessions(database, KEY)
    with closing(taken(database, KEY)) as consumer, writer(database) as connection:
        consumer.apply([log.append(checkpoint(7))])

        def write_once(done: Rekeyed) -> None:
            if done.sessions == 2:
                consumer.apply([log.append(checkpoint(8))])

        with pytest.raises(WrongView, match="found 1 sessions and 1 checkpoints that are not: a consumer without it"):
            Rekey(connection, Keyring([OTHER_KEY, KEY])).run(lambda: False, write_once)


def test_beside_a_consumer_that_has_no_key(database: str) -> None:
    log = two_sessions(database)
    with closing(taken(database)) as consumer:
        consumer.apply([log.append(checkpoint(7))])
        assert rekey(database, KEY, unsigned=True).complete
        with pytest.raises(Fenced):
            consumer.apply([log.append(checkpoint(8))])
        with pytest.raises(WrongView, match="expected an integrity key"):
            consumer.take(range(PARTITIONS))
    assert keys_in_use(database) == {KEY.id}
