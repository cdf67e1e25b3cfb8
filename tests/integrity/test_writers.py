"""What writes the view with a key: it signs, it does not sign what somebody else changed, and nobody writes without the key."""

from __future__ import annotations

from contextlib import closing
from typing import LiteralString

import msgspec
import psycopg
import pytest

from milepost.consumer.database import connect
from milepost.consumer.integrity import IntegrityKey, Keyring
from milepost.consumer.materializer import Materializer, become_writer
from milepost.consumer.replay.rebuild import Rebuilder
from milepost.consumer.replay.shelf import Shelf
from milepost.consumer.retry import Retried, Retry
from milepost.consumer.store import CheckpointStore
from milepost.schemas import DEFAULT_TOPIC, InvalidRecord, Reason, Tampered, WrongView
from tests.fixtures.dump import dump, empty
from tests.fixtures.view import PARTITIONS, FakeLog, bind_log
from tests.integrity.conftest import Ground
from tests.integrity.ground import KEY, OTHER_KEY, SignedView, checkpoint, execute, set_newest

TRIP = "tenant_id = 'acme' and session_id = 'trip'"
EDITS: dict[str, tuple[LiteralString, str]] = {
    "a head": (f"update milepost.sessions set live_checkpoints = 5 where {TRIP}", "live_checkpoints"),
    "a chain": (f"update milepost.sessions set chain = sha256(chain) where {TRIP}", "chain"),
    "a missing row": (f"delete from milepost.checkpoints where {TRIP} and seq = 4", "row"),
    "a time, which would prune": (
        f"update milepost.checkpoints set log_time = '2001-01-01' where {TRIP} and seq = 4",
        "log_time",
    ),
    "a pin, which would not keep": (
        f"update milepost.checkpoints set pinned = false where {TRIP} and seq = 2",
        "pinned",
    ),
}


def taken(database: str, *keys: IntegrityKey) -> Materializer:
    """A consumer that has all partitions."""
    materializer = Materializer(database, DEFAULT_TOPIC, Keyring(keys) if keys else None)
    materializer.take(range(PARTITIONS))
    return materializer


def a_trip(database: str, *keys: IntegrityKey) -> FakeLog:
    """Six checkpoints, the second pinned, of which the newest three and the second are live."""
    set_newest(database, 3)
    log = FakeLog()
    view = SignedView(database, keys)
    view.apply([log.append(checkpoint(number, pinned=number == 2)) for number in range(1, 7)])
    view.close()
    return log


@pytest.mark.parametrize("what", EDITS)
def test_an_edit_is_not_signed(ground: Ground, what: str) -> None:
    statement, field = EDITS[what]
    database = ground.database
    execute(database, statement)
    before = dump(database)
    with closing(taken(database, KEY)) as consumer, pytest.raises(Tampered) as raised:
        consumer.apply([ground.log.append(checkpoint(9))])
    assert raised.value.key["session_id"] == "trip"
    # which column of a MAC that does not fit is not looked up here: a read or milepost audit verify says it
    assert raised.value.field in (field, "mac")
    # nor is it signed by what measures sessions after a change of policy
    set_newest(database, 1)
    with closing(taken(database, KEY)) as sweeper, pytest.raises(Tampered):
        while sweeper.is_sweeping:
            sweeper.sweep()
    set_newest(database, 5)
    trip = [row for row in before["sessions"] if row[1] == "trip"]
    assert [row for row in dump(database)["sessions"] if row[1] == "trip"] == trip


def test_nobody_writes_without_the_key(database: str) -> None:
    log = a_trip(database, KEY)
    before = dump(database)
    keyless = Materializer(database, DEFAULT_TOPIC)
    with closing(keyless), pytest.raises(WrongView, match="--integrity-key FILE or MILEPOST_INTEGRITY_KEY"):
        keyless.take(range(PARTITIONS))
    unknown = pytest.raises(Tampered, match=f"mac_key: expected a key that was given.*{KEY.id.hex()}")
    with closing(taken(database, OTHER_KEY)) as other, unknown:
        other.apply([log.append(checkpoint(7))])
    with connect(database) as connection, pytest.raises(WrongView, match="--integrity-key FILE"):
        Retry(connection)
    assert dump(database) == before


def test_a_session_that_is_signed_in_a_view_that_is_not(database: str) -> None:
    """As when somebody signs a view beside a consumer that runs without the key."""
    log = a_trip(database)
    consumer = taken(database)
    execute(database, "update milepost.sessions set mac = sha256(chain), mac_key = '\\x0102030405060708'")
    with pytest.raises(
        WrongView, match="found one of the integrity key 0102030405060708; give the key by --integrity-key"
    ):
        consumer.apply([log.append(checkpoint(7))])
    consumer.close()


def test_a_view_without_macs_is_not_signed_by_the_way(database: str) -> None:
    log = a_trip(database)
    consumer = Materializer(database, DEFAULT_TOPIC, Keyring([KEY]))
    with closing(consumer):
        with pytest.raises(WrongView, match="milepost audit rekey --integrity-key FILE --unsigned"):
            consumer.take(range(PARTITIONS))
        empty(database)
        bind_log(database)
        consumer.take(range(PARTITIONS))
        consumer.apply(log.records)
    execute(database, "update milepost.sessions set mac = null, mac_key = null where session_id = 'trip'")
    refused = pytest.raises(WrongView, match="rekey --integrity-key FILE --unsigned")
    with closing(Materializer(database, DEFAULT_TOPIC, Keyring([KEY]))) as other, refused:
        other.take(range(PARTITIONS))


def test_what_is_written_is_signed_by_the_first_key(database: str) -> None:
    log = a_trip(database, KEY)
    consumer = taken(database, OTHER_KEY, KEY)
    consumer.apply([log.append(checkpoint(7)), log.append(checkpoint(1, "new"))])
    consumer.close()
    with psycopg.connect(database) as connection:
        heads = connection.execute("select session_id, mac_key from milepost.sessions order by 1").fetchall()
        rows = connection.execute("select seq, mac_key from milepost.checkpoints where session_id = 'trip' order by 1")
        assert heads == [("new", OTHER_KEY.id), ("trip", OTHER_KEY.id)]
        assert rows.fetchall() == [(2, KEY.id), (5, KEY.id), (6, KEY.id), (7, OTHER_KEY.id)]
    with CheckpointStore(database, integrity_keys=[KEY, OTHER_KEY]) as store:
        assert [info.seq for info in store.list("acme", "trip")] == [2, 5, 6, 7]


def test_a_retry_signs_what_it_applies(database: str) -> None:
    log = a_trip(database, KEY)
    view = SignedView(database)
    bad = log.append(checkpoint(7))
    view.apply(
        [msgspec.structs.replace(bad, event=None, fault=InvalidRecord(Reason.UNKNOWN_KIND, "a kind of tomorrow"))]
    )
    with connect(database) as connection:
        become_writer(connection)
        position = log.position(bad)
        assert [found.result for found in Retry(connection, Keyring([KEY])).run([position])] == [Retried.APPLIED]
        execute(database, f"update milepost.sessions set last_event_time = now() where {TRIP}")
    with connect(database) as connection:
        become_writer(connection)
        worse = log.append(checkpoint(8))
        with closing(taken(database, KEY)) as consumer:
            unknown = InvalidRecord(Reason.UNKNOWN_KIND, "a kind of tomorrow")
            consumer.apply([msgspec.structs.replace(worse, event=None, fault=unknown)])
        with pytest.raises(Tampered):
            list(Retry(connection, Keyring([KEY])).run([log.position(worse)]))
    view.close()
    with CheckpointStore(database, integrity_keys=[KEY]) as store, pytest.raises(Tampered, match="last_event_time"):
        store.latest("acme", "trip")


def test_a_replay_signs_what_a_consumer_would(database: str, other_database: str) -> None:
    log = a_trip(database, KEY)
    set_newest(other_database, 3)
    bind_log(other_database)
    shelf = Shelf()
    rebuilder = Rebuilder(other_database, DEFAULT_TOPIC, shelf, Keyring([KEY]))
    rebuilder.take(range(PARTITIONS))
    rebuilder.apply(log.records[:4])
    rebuilder.apply(log.records[4:])
    rebuilder.finish()
    rebuilder.close()
    assert dump(other_database) == dump(database)
