"""What the publisher's tests have in common."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from milepost.producer.testing import MemoryRecord
from milepost.schemas import CheckpointCreated, Position

NOBODY: Final = "127.0.0.1:1"
"""Where no Kafka listens."""
PARTITIONS: Final = 4


def created(number: int = 0, session: str = "s", *, size: int = 0, tenant: str = "t") -> CheckpointCreated:
    """An event whose state is its number."""
    padding = "x" * size
    return CheckpointCreated(
        tenant_id=tenant, session_id=session, state=f'{{"n": {number}, "pad": "{padding}"}}'.encode(), step=number
    )


def wait_until(condition: Callable[[], object], limit: float = 15.0) -> None:
    """Return when the condition holds; fail when it does not within the limit, seconds."""
    end = time.monotonic() + limit
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < end, f"not within {limit} s"
        pause.wait(0.01)


def read_log(servers: str, topic: str, partitions: int = PARTITIONS) -> list[MemoryRecord]:
    """All that a topic holds now, partition by partition."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "tests", "enable.auto.commit": False})
    try:
        records: list[MemoryRecord] = []
        for partition in range(partitions):
            _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)
            records += _read(consumer, topic, partition, end)
        return records
    finally:
        consumer.close()


def _read(consumer: Consumer, topic: str, partition: int, end: int) -> list[MemoryRecord]:
    records: list[MemoryRecord] = []
    if end == 0:
        return records
    consumer.assign([TopicPartition(topic, partition, 0)])
    while not records or records[-1].position.offset < end - 1:
        message = consumer.poll(10)
        assert message is not None, f"{topic}/{partition} ends at {end}, but gives nothing"
        assert message.error() is None, message.error()
        offset, key = message.offset(), message.key()
        assert offset is not None and isinstance(key, bytes)
        value = message.value()
        assert value is None or isinstance(value, bytes)
        headers = tuple((name, bytes(text) if text is not None else None) for name, text in _headers(message.headers()))
        position = Position(topic, partition, offset)
        records.append(
            MemoryRecord(position=position, key=key, value=value, headers=headers, timestamp=message.timestamp()[1])
        )
    return records


def _headers(found: object) -> Sequence[tuple[str, bytes | None]]:
    return found if isinstance(found, list) else []


def header(record: MemoryRecord, name: str) -> str | None:
    """The text of a header, None when there is none."""
    found = [text for each, text in record.headers if each == name]
    assert len(found) <= 1, f"{name} stands {len(found)} times"
    return found[0].decode() if found and found[0] is not None else None


def steps(records: Sequence[MemoryRecord], key: bytes) -> list[int]:
    """The numbers of a session's events, in the log's order."""
    return [int(header(record, "ce_step") or -1) for record in records if record.key == key]
