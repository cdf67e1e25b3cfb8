"""A view with something of everything, filled once, and a copy of it for each test that edits it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple
from uuid import UUID

import psycopg
import pytest

from milepost.consumer.records import LogRecord
from milepost.schemas import CheckpointCreated, Event, SessionDeleted
from tests.audit.fake_log import retry
from tests.fixtures.servers import _created, with_dbname
from tests.fixtures.strategies import START
from tests.fixtures.view import FakeLog, PostgresView
from tests.properties.test_view_laws import set_newest
from tests.quarantine.helpers import unknown_to_an_older_version

PUBLISHER = "01939b2c-0000-7000-8000-00000000000a"


class Filled(NamedTuple):
    """A view, and the records that it was filled from."""

    database: str
    records: list[LogRecord]


def made() -> list[Event]:
    """Events of three sessions: `one` keeps 5 of 12, `two` was deleted and began again, `three` stands in another tenant."""
    events: list[Event] = []

    def created(tenant_id: str, session_id: str, number: int, **fields: object) -> None:
        events.append(
            CheckpointCreated(
                tenant_id=tenant_id,
                session_id=session_id,
                checkpoint_id=f"c{number:03}",
                parent_id=f"c{number - 1:03}" if number else None,
                event_id=UUID(int=len(events) + 1),
                state=b'{"$type":0,"number":%d,"of":"%s"}' % (number, session_id.encode()),
                labels={"workflow": "travel"},
                created_at=START,
                **fields,  # type: ignore[arg-type]
            )
        )

    for number in range(12):
        created("acme", "one", number, pinned=number == 2, step=number)
    for number in range(4):
        created("acme", "two", number)
    events.append(
        SessionDeleted(tenant_id="acme", session_id="two", deleted_at=START, reason="asked to", event_id=UUID(int=99))
    )
    for number in range(10, 13):
        created("acme", "two", number)
    for number in range(3):
        created("other", "three", number)
    return [*events, events[0]]


def a_log() -> FakeLog:
    """These events, the later ones numbered by a publisher; then a record that is no event, and one more event."""
    plain, log = FakeLog(), FakeLog()
    for number, event in enumerate(made()):
        record = plain.append(event)
        numbers = [("ce_publisherid", PUBLISHER.encode()), ("ce_publisherseq", b"%d" % number)] if number > 2 else []
        log.append_raw(record.key, record.value, [*record.headers, *numbers])
    log.append_raw(b"acme/one", b"no event", [("x", None)])
    log.append(CheckpointCreated(tenant_id="acme", session_id="late", checkpoint_id="c", state=b"1", created_at=START))
    return log


@pytest.fixture(scope="session")
def filled(postgres_conninfo: str, template: str) -> Iterator[Filled]:
    """A view under a policy of five that was set long ago; its last record was quarantined by an older version, and retried."""
    name = f"filled_{uuid.uuid4().hex[:12]}"
    with _created(postgres_conninfo, name, template):
        database = with_dbname(postgres_conninfo, name)
        set_newest(database, 5)
        records = a_log().records
        view = PostgresView(database)
        view.apply([*records[:-1], unknown_to_an_older_version(records[-1])])
        view.close()
        retry(database, records[-1:])
        with psycopg.connect(database) as connection:
            connection.execute("set session_replication_role = replica")
            connection.execute("update milepost.operator_acts set at = at - interval '1 day'")
        yield Filled(database, records)


@pytest.fixture
def edited(filled: Filled, postgres_conninfo: str) -> Iterator[Filled]:
    """A copy of that view, to be edited."""
    name = f"edited_{uuid.uuid4().hex[:12]}"
    with _created(postgres_conninfo, name, str(psycopg.conninfo.conninfo_to_dict(filled.database)["dbname"])):
        yield Filled(with_dbname(postgres_conninfo, name), filled.records)


@contextmanager
def temporary(database: str, template: str) -> Iterator[str]:
    """Another database of the same server, for a while."""
    name = f"other_{uuid.uuid4().hex[:12]}"
    with _created(database, name, template):
        yield with_dbname(database, name)


def edit(database: str, *statements: str) -> None:
    """Change what stands in the tables behind the product's back, as a superuser who has switched the triggers off."""
    with psycopg.connect(database) as connection:
        connection.execute("set session_replication_role = replica")
        for statement in statements:
            assert connection.execute(statement).rowcount, f"{statement}: changed nothing"
