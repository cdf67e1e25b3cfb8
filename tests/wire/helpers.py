"""What the tests of the wire have in common: a record as the schemas see it, and the validator that asserts all they say."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from confluent_kafka import Consumer, Producer, TopicPartition
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend

from milepost.schemas import EncodedEvent, Kind
from milepost.schemas.published import json_schema

CREATED = Kind.CHECKPOINT_CREATED
DELETED = Kind.SESSION_DELETED
SOURCE = "/runtimes/tests"

_Headers = Sequence[tuple[str, str | bytes | None]]


class Record(NamedTuple):
    """A record as a consumer gets it."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    partition: int | None


def instance(key: bytes | None, headers: _Headers) -> dict[str, Any]:
    """A record as the schemas see it: key and headers as texts, nulls absent."""
    texts = {
        name: value.decode() if isinstance(value, bytes) else value for name, value in headers if value is not None
    }
    return {"key": None if key is None else key.decode(), "headers": texts}


def received(headers: _Headers) -> list[tuple[str, bytes | None]]:
    """The headers as a consumer gets them: bytes."""
    return [(name, value.encode() if isinstance(value, str) else value) for name, value in headers]


def validator(kind: Kind, name: str = "") -> Draft202012Validator:
    """The validator of a kind's records, or of one definition of its schema, with the contents of texts asserted too."""
    schema = json_schema(kind)
    if name:
        del schema["required"], schema["properties"], schema["type"], schema["additionalProperties"]
        schema["$ref"] = f"#/$defs/{name}"
    asserting: Draft202012Validator = _Asserting(schema)
    return asserting


def _assert_content(checker: Any, content: Any, text: object, schema: Mapping[str, Any]) -> Iterable[ValidationError]:
    """2020-12 makes `contentSchema` an annotation; here it must hold."""
    if not isinstance(text, str):
        return
    try:
        value = json.loads(text)
    except ValueError as error:
        yield ValidationError(f"no JSON: {error}")
        return
    yield from checker.descend(value, content)


_Asserting: Any = extend(Draft202012Validator, {"contentSchema": _assert_content})  # type: ignore[no-untyped-call]


def produce(servers: str, topic: str, events: Iterable[EncodedEvent]) -> None:
    """Write records with librdkafka alone, as any publisher would, and wait until the log has them."""
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": servers, "partitioner": "murmur2_random"})
    for event in events:
        producer.produce(
            topic,
            key=event.key,
            value=event.value,
            headers=event.headers,
            on_delivery=lambda error, message: failed.append(error) if error is not None else None,
        )
    assert producer.flush(30) == 0
    assert failed == []


def consume(servers: str, topic: str, count: int) -> list[Record]:
    """The first records of a topic, from all of its partitions."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "tests", "enable.auto.commit": False})
    try:
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        records: list[Record] = []
        while len(records) < count:
            batch = consumer.consume(count - len(records), timeout=30)
            assert batch, f"expected {count} records, found {len(records)}"
            assert [message.error() for message in batch if message.error()] == []
            records += [
                Record(
                    message.key(),
                    message.value(),
                    received(cast("_Headers", message.headers() or [])),
                    message.partition(),
                )
                for message in batch
            ]
        return records
    finally:
        consumer.close()
