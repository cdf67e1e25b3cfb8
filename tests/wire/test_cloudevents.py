"""The official CloudEvents SDK and milepost read each other's records, through a real Kafka."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any
from uuid import UUID

from cloudevents.core.bindings import kafka as core
from cloudevents.core.v1.event import CloudEvent as CoreEvent
from cloudevents.v1 import kafka as v1
from cloudevents.v1.http import CloudEvent as V1Event

from milepost.schemas import CheckpointCreated, EncodedEvent, Envelope, SessionDeleted, decode, encode
from tests.wire.helpers import CREATED, DELETED, SOURCE, Record, consume, instance, produce, validator

WHEN = datetime(2026, 3, 1, 12, 30, 45, 123456, UTC)
MICROSECONDS = 1_772_368_245_123_456
STATE = b' {"$type": "Support", "score": 1.0, "score": 1.0, "big": 1E5}\n'
DELETION: dict[str, Any] = {
    "type": "milepost.session-deleted.v1",
    "source": "/runtimes/sdk",
    "id": "0197a2c4-b1d1-7000-8000-000000000001",
    "tenantid": "acme",
    "sessionid": "séance 7",
    "partitionkey": "acme/séance 7",
}
CHECKPOINT: dict[str, Any] = {
    **DELETION,
    "type": "milepost.checkpoint-created.v1",
    "datacontenttype": "application/json",
    "checkpointid": "c1",
    "parentid": "c0",
    "step": "3",
    "pinned": "true",
    "labels": '{"workflow": "support"}',
    "statesha256": sha256(STATE).hexdigest(),
    "priority": "high",
}
OURS = CheckpointCreated(
    tenant_id="acme",
    session_id="séance 7",
    state=STATE,
    checkpoint_id="c1",
    parent_id="c0",
    run_id=UUID(int=7),
    step=3,
    pinned=True,
    labels={"workflow": "support"},
    created_at=WHEN,
)


def _through_kafka(servers: str, topic: str, record: EncodedEvent) -> Record:
    produce(servers, topic, [record])
    (received,) = consume(servers, topic, 1)
    return received


def _record(message: core.KafkaMessage | v1.KafkaMessage) -> EncodedEvent:
    key = message.key.encode() if isinstance(message.key, str) else message.key
    value = message.value.encode() if isinstance(message.value, str) else message.value
    assert key is not None
    return EncodedEvent(key, value, list(message.headers.items()))


def _read(message: Record) -> Envelope:
    """What milepost reads, when the schema agrees."""
    envelope = decode(message.key, message.value, message.headers)
    validator(envelope.kind).validate(instance(message.key, message.headers))
    return envelope


def _is_checkpoint(envelope: Envelope) -> None:
    assert (envelope.kind, envelope.tenant_id, envelope.session_id) == (CREATED, "acme", "séance 7")
    assert envelope.event_id == UUID(CHECKPOINT["id"]).bytes
    assert (envelope.event_time, envelope.source) == (MICROSECONDS, "/runtimes/sdk")
    assert (envelope.checkpoint_id, envelope.parent_id, envelope.step, envelope.pinned) == ("c1", "c0", 3, True)
    assert (envelope.state, envelope.sha256) == (STATE, sha256(STATE).digest())
    assert envelope.labels == b'{"workflow": "support"}'
    assert envelope.extensions == b'{"priority":"high"}'


def test_a_checkpoint_made_by_the_sdk_is_accepted(kafka_servers: str, topic: str) -> None:
    made = core.to_binary_event(CoreEvent({**CHECKPOINT, "time": WHEN}, STATE))
    _is_checkpoint(_read(_through_kafka(kafka_servers, topic, _record(made))))


def test_a_checkpoint_made_by_the_older_api_is_accepted(kafka_servers: str, topic: str) -> None:
    event = V1Event({**CHECKPOINT, "time": WHEN.isoformat()}, STATE)
    made = v1.to_binary(event, data_marshaller=lambda state: state)
    assert "ce_partitionkey" not in made.headers
    _is_checkpoint(_read(_through_kafka(kafka_servers, topic, _record(made))))


def test_what_the_sdk_fills_in_is_accepted(kafka_servers: str, topic: str) -> None:
    least = {name: value for name, value in CHECKPOINT.items() if name not in ("id", "statesha256")}
    made = core.to_binary_event(CoreEvent(least, {"turns": 3}))
    envelope = _read(_through_kafka(kafka_servers, topic, _record(made)))
    assert (envelope.state, UUID(bytes=envelope.event_id).version) == (b'{"turns": 3}', 4)


def test_a_deletion_made_by_the_sdk_is_accepted(kafka_servers: str, topic: str) -> None:
    """The SDK makes an empty value of no data, not a null."""
    made = core.to_binary_event(CoreEvent({**DELETION, "time": WHEN, "reason": "asked for"}))
    message = _through_kafka(kafka_servers, topic, _record(made))
    envelope = _read(message)
    assert message.value == b""
    assert (envelope.kind, envelope.reason, envelope.event_time) == (DELETED, "asked for", MICROSECONDS)


def test_a_deletion_made_by_the_older_api_is_accepted(kafka_servers: str, topic: str) -> None:
    event = V1Event({**DELETION, "datacontenttype": "application/json", "time": WHEN.isoformat()})
    made = v1.to_binary(event, data_marshaller=lambda nothing: b"")
    envelope = _read(_through_kafka(kafka_servers, topic, _record(made)))
    assert (envelope.kind, envelope.event_time, envelope.state) == (DELETED, MICROSECONDS, None)


def _core_message(message: Record) -> core.KafkaMessage:
    headers = {name: value for name, value in message.headers if value is not None}
    return core.KafkaMessage(headers, message.key, message.value or b"")


def test_the_sdk_reads_our_checkpoint(kafka_servers: str, topic: str) -> None:
    message = _through_kafka(kafka_servers, topic, encode(OURS, source=SOURCE))
    event = core.from_kafka_event(_core_message(message))
    assert (event.get_id(), event.get_source(), event.get_time()) == (str(OURS.event_id), SOURCE, WHEN)
    assert (event.get_type(), event.get_datacontenttype()) == ("milepost.checkpoint-created.v1", "application/json")
    assert event.get_extension("partitionkey") == "acme/séance 7"
    assert event.get_extension("runid") == str(UUID(int=7))
    assert event.get_extension("labels") == '{"workflow":"support"}'
    assert event.get_data() == json.loads(STATE)


def test_the_sdk_reads_our_deletion(kafka_servers: str, topic: str) -> None:
    deleted = SessionDeleted(tenant_id="acme", session_id="s", reason="asked for", deleted_at=WHEN)
    message = _through_kafka(kafka_servers, topic, encode(deleted, source=SOURCE))
    event = core.from_kafka_event(_core_message(message))
    assert (event.get_type(), event.get_time(), event.get_data()) == ("milepost.session-deleted.v1", WHEN, None)
    assert event.get_extension("reason") == "asked for"


def test_the_older_api_reads_ours_and_keeps_the_bytes(kafka_servers: str, topic: str) -> None:
    message = _through_kafka(kafka_servers, topic, encode(OURS, source=SOURCE))
    read = _core_message(message)
    event = v1.from_binary(v1.KafkaMessage(read.headers, read.key, read.value), data_unmarshaller=lambda state: state)
    assert (event["id"], event["time"], event.get_data()) == (str(OURS.event_id), "2026-03-01T12:30:45.123456Z", STATE)
    assert (event["checkpointid"], event["pinned"], event["step"]) == ("c1", "true", "3")


def test_what_the_sdk_reads_it_writes_back_as_an_equal_event(kafka_servers: str, topic: str) -> None:
    message = _through_kafka(kafka_servers, topic, encode(OURS, source=SOURCE))
    event = core.from_kafka_event(_core_message(message))
    again = core.to_binary_event(CoreEvent(event.get_attributes(), message.value))
    assert _read(message) == decode(_record(again).key, again.value, list(again.headers.items()))
