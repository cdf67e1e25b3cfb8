"""What a topic holds, read by a bare client, and topics that keep the times that records bring along."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition

from milepost.consumer import kafka
from milepost.consumer.headers import read_headers
from milepost.consumer.log import create_topic, describe_settings, ends, identify
from milepost.schemas.wire import TOPIC_CONFIG


class Found(NamedTuple):
    """A record as it lies in a partition."""

    partition: int
    time: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def read(servers: str, topic: str) -> list[Found]:
    """All records, partition by partition."""
    client = kafka.admin(servers)
    left = {p: end for p, end in ends(client, servers, identify(client, servers, topic)).items() if end}
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "tests", "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in left])
    found: list[Found] = []
    while left:
        message = consumer.poll(10)
        assert message is not None, f"nothing came of {left}"
        partition, key, value = message.partition(), message.key(), message.value()
        assert partition is not None and message.error() is None
        headers, readable = read_headers(message)
        assert readable
        found.append(Found(partition, message.timestamp()[1], key, value, tuple(headers)))
        if (message.offset() or 0) + 1 >= left.get(partition, 0):
            left.pop(partition, None)
    consumer.close()
    return sorted(found, key=lambda record: record.partition)


def topic_with_times(servers: str, partitions: int, records: Iterable[Found]) -> str:
    """A fresh log that holds these records, in this order, each as if the log had taken it at its time."""
    name = f"test.{uuid.uuid4().hex[:12]}"
    client = kafka.admin(servers)
    create_topic(client, servers, name, partitions, 1, config={**TOPIC_CONFIG, "message.timestamp.type": "CreateTime"})
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "message.max.bytes": 17_825_792})
    for record in records:
        producer.produce(
            name, record.value, record.key, record.partition, headers=list(record.headers), timestamp=record.time
        )
        producer.poll(0)
    assert producer.flush(60) == 0
    return name


def settings(servers: str, topic: str) -> dict[str, str | None]:
    """The settings of a topic."""
    client = kafka.admin(servers)
    return describe_settings(client, servers, topic)
