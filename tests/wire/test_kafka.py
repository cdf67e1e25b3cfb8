"""Records as a real Kafka gives them back."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]

from milepost.schemas import CheckpointCreated, Event, SessionDeleted, decode, encode
from milepost.schemas.published import asyncapi
from tests.wire.helpers import CREATED, DELETED, SOURCE, consume, instance, produce, validator

WHEN = datetime(2026, 3, 1, 12, 30, 45, 123456, UTC)
EVENTS: list[Event] = [
    CheckpointCreated(tenant_id="acme", session_id="least", state=b"0"),
    CheckpointCreated(
        tenant_id="a" * 128,
        session_id="é😀" * 256,
        state=b' {"$type": "S", "n": 1.0, "lone": "\\ud800"}\n',
        checkpoint_id="c" * 512,
        parent_id="a/b",
        run_id=UUID(int=1),
        step=2**63 - 1,
        next_node="é" * 4096,
        framework_version="1.0",
        schema_version=0,
        pinned=True,
        labels={"workflow": "support", "quoted": 'a "b"\n'},
        created_at=WHEN,
    ),
    SessionDeleted(tenant_id="acme", session_id="least"),
    SessionDeleted(tenant_id="acme", session_id="a:b,c", reason="asked for\u00a0it", deleted_at=WHEN),
]


def test_records_read_from_kafka_are_valid(kafka_servers: str, topic: str) -> None:
    produce(kafka_servers, topic, [encode(event, source=SOURCE) for event in EVENTS])
    kinds = []
    for record in consume(kafka_servers, topic, len(EVENTS)):
        kind = decode(record.key, record.value, record.headers).kind
        validator(kind).validate(instance(record.key, record.headers))
        kinds.append(kind)
    assert sorted(kinds) == sorted([CREATED, CREATED, DELETED, DELETED])


def test_a_topic_that_milepost_made_is_the_documented_one(kafka_servers: str, topic: str) -> None:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": kafka_servers})
    found = {name: entry.value for name, entry in admin.describe_configs([resource])[resource].result(30).items()}
    documented = asyncapi()["channels"]["log"]["bindings"]["kafka"]["topicConfiguration"]
    documented["cleanup.policy"] = ",".join(documented["cleanup.policy"])
    assert {name: found[name] for name in documented} == {name: str(value) for name, value in documented.items()}
