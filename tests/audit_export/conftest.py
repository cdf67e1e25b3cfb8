"""A log in Kafka with a session in which everything happened, and a view of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple
from uuid import UUID, uuid4

import psycopg
import pytest
from confluent_kafka import TopicPartition
from psycopg import sql

from milepost.consumer import kafka
from milepost.consumer.audit.export import Exported, ExportRequest, export_session
from milepost.consumer.log import create_topic
from milepost.consumer.replay import ReplayRequest, replay
from milepost.schemas import CheckpointCreated, Event, SessionDeleted, encode
from milepost.schemas.ids import session_key
from milepost.schemas.partitioning import partition_of
from tests.fixtures.publishing import produce_raw
from tests.fixtures.servers import with_dbname
from tests.fixtures.view import PARTITIONS

TENANT, SESSION = "acme", "trip/42 ü"
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
LARGE = b'{"$type":0,"blob":"' + b"x" * 3_000_000 + b'"}'
STRUCTURED = b'{"b" : 1.0, "a":"\\u0000\\ud800"}'


def created(checkpoint_id: str, seconds: int, number: int, state: bytes, *, pinned: bool = False) -> Event:
    return CheckpointCreated(
        tenant_id=TENANT,
        session_id=SESSION,
        checkpoint_id=checkpoint_id,
        state=state,
        parent_id="p",
        run_id=UUID(int=7),
        step=number,
        next_node="node",
        framework_version="1.23",
        schema_version=2,
        labels={"workflow": "travel", "ключ": '"'},
        created_at=NOON + timedelta(seconds=seconds),
        event_id=UUID(int=number),
        pinned=pinned,
    )


STORY: list[Event] = [
    created("a", 0, 1, b' {"n": 1}'),
    created("a", 0, 1, b' {"n": 1}'),
    created("a", 1, 2, b"2"),
    created("b", 1, 3, LARGE),
    SessionDeleted(tenant_id=TENANT, session_id=SESSION, reason="asked to", deleted_at=NOON + timedelta(seconds=5)),
    created("late", 4, 5, b'"stale"'),
    created("a", 6, 6, b"[6]"),
    created("pinned", 6, 7, b"[7,1E5,-0]", pinned=True),
    created("c", 6, 8, b"[8]"),
    created("d", 6, 9, b"[9]"),
]
STATES = {1: b' {"n": 1}', 2: b' {"n": 1}', 3: b"2", 4: LARGE, 6: b'"stale"', 7: b"[6]", 8: b"[7,1E5,-0]"}
STATES |= {9: b"[8]", 10: b"[9]", 11: STRUCTURED}
"""The state that each event published, by seq."""
LIVE = {"pinned": b"[7,1E5,-0]", "d": b"[9]", "e": STRUCTURED}
"""By id, with the newest 2 kept."""


def structured() -> tuple[bytes, bytes, list[tuple[str, str | bytes | None]]]:
    """A record in structured mode, of a publisher that numbers its events and has attributes of its own."""
    attributes = {
        "specversion": "1.0",
        "type": "milepost.checkpoint-created.v1",
        "id": str(UUID(int=10)),
        "source": "/runtimes/other",
        "time": "2026-11-30T12:00:07.5+00:00",
        "tenantid": TENANT,
        "sessionid": SESSION,
        "checkpointid": "e",
        "publisherid": str(UUID(int=77)),
        "publisherseq": 1,
        "labels": '{"k": "v"}',
        "zebra": "z",
        "apple": "ä",
    }
    value = json.dumps(attributes).encode()[:-1] + b', "data":' + STRUCTURED + b"}"
    trace = ("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    return f"{TENANT}/{SESSION}".encode(), value, [("content-type", b"application/cloudevents+json"), trace]


class Ground(NamedTuple):
    """Where a log and its view are."""

    kafka: str
    topic: str
    database: str

    def export(self, path: Path, *, kafka: bool = True) -> Exported | None:
        """Write the session's export."""
        request = ExportRequest(
            database=self.database, kafka=self.kafka if kafka else None, tenant_id=TENANT, session_id=SESSION
        )
        with path.open("wb") as stream:
            return export_session(request, stream)

    def lose(self, offset: int) -> None:
        """Take the log's beginning away, as no retention of ours would: the session's records below an offset."""
        client = kafka.admin(self.kafka)  # it must live for as long as its call
        partition = partition_of(session_key(TENANT, SESSION), PARTITIONS)
        for future in client.delete_records([TopicPartition(self.topic, partition, offset)]).values():
            future.result(30)


def fill(servers: str, topic: str) -> None:
    """Put the story into the log."""
    encoded = [encode(event, source="/runtimes/test") for event in STORY]
    produce_raw(servers, topic, [*[(one.key, one.value, one.headers) for one in encoded], structured()])


def build(servers: str, topic: str, database: str) -> Ground:
    """Build a view in an empty database that keeps the newest two."""
    replay(ReplayRequest(kafka=servers, topic=topic, database=database, newest=2))
    return Ground(servers, topic, database)


@pytest.fixture(scope="package")
def ground(kafka_servers: str, postgres_conninfo: str, template: str) -> Iterator[Ground]:
    """The story's log and view, for tests that leave them as they are."""
    name = f"test_{uuid4().hex[:12]}"
    create_topic(kafka.admin(kafka_servers), kafka_servers, name, PARTITIONS, 1)
    fill(kafka_servers, name)
    with psycopg.connect(postgres_conninfo, autocommit=True) as server:
        server.execute(sql.SQL("create database {} template {}").format(*map(sql.Identifier, (name, template))))
        yield build(kafka_servers, name, with_dbname(postgres_conninfo, name))
        server.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@pytest.fixture
def own(kafka_servers: str, topic: str, database: str) -> Ground:
    """The same for a test that changes them."""
    fill(kafka_servers, topic)
    return build(kafka_servers, topic, database)
