"""What milepost is measured by: the same work with everything left out that can be. Each runs in a process of its own.

A slow yardstick is a lie: these use what was found to be the fastest way in and out (docs/performance.md).
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from hashlib import sha256
from multiprocessing.connection import Connection as Pipe
from typing import Any, Final
from uuid import uuid4

import msgspec
import psycopg
from confluent_kafka import Consumer, Message, TopicPartition
from psycopg import sql

from benchmarks.states import States
from milepost.consumer.materializer import become_writer
from milepost.consumer.rows import CHECKPOINT_COLUMNS

BATCH: Final = 1_000
_READ_AT_ONCE: Final = 100
_is_json = msgspec.json.Decoder(msgspec.Raw).decode


def untouched(_message: Message) -> None:
    """Consume, and look at nothing."""


def checked(message: Message) -> None:
    """Decode the headers, check the JSON and the digest."""
    headers: Mapping[str, bytes] = dict(message.headers() or ())  # type: ignore[arg-type]
    value: Any = message.value()
    if value is not None:
        if not value.isascii():
            value.decode()
        _is_json(value)
        if sha256(value).hexdigest().encode() != headers["ce_statesha256"]:
            raise RuntimeError(f"the state at offset {message.offset()} has another digest")


def read(told: Pipe, servers: str, topic: str, partitions: int, events: int, look: Callable[[Message], None]) -> None:
    """Tell the rate at which a log of so many events is read, from the first one on."""
    gc.disable()
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"bench-{uuid4()}",
            "enable.auto.commit": False,
            "fetch.queue.backoff.ms": 5,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    messages = consumer.consume(1, 30)
    begin = time.perf_counter()
    cpu = time.process_time()
    count = 0
    while count < events:
        messages = messages or consumer.consume(_READ_AT_ONCE, 1)
        for message in messages:
            if message.error() is None:
                look(message)
                count += 1
        messages = []
    seconds, busy = time.perf_counter() - begin, time.process_time() - cpu
    consumer.close()
    told.send({"events/s": events / seconds, "client CPU µs": busy / events * 1e6})


def copy(told: Pipe, database: str, number: int, events: int, size: int) -> None:
    """Copy rows into the table of live checkpoints, a transaction for each batch; wait for a word before the first."""
    states = States(size)
    prepared = [states.state(session, 7) for session in range(BATCH)]
    digests = [sha256(state).digest() for state in prepared]
    names = sql.SQL(", ").join(sql.Identifier(name.strip('"')) for name in CHECKPOINT_COLUMNS)
    statement = sql.SQL("copy milepost.checkpoints ({}) from stdin (format binary)").format(names)
    with psycopg.connect(database, autocommit=True) as connection:
        become_writer(connection)
        told.send("ready")
        told.recv()
        begin, cpu = time.perf_counter(), time.process_time()
        for first in range(0, events, BATCH):
            with connection.transaction(), connection.cursor() as cursor, cursor.copy(statement) as rows:
                rows.set_types(list(CHECKPOINT_COLUMNS.values()))
                for row in range(first, min(first + BATCH, events)):
                    rows.write_row(_row(number, row, prepared[row % BATCH], digests[row % BATCH]))
        told.send((begin, time.perf_counter(), time.process_time() - cpu))


def _row(number: int, row: int, state: bytes, digest: bytes) -> tuple[object, ...]:
    """As the consumer writes it."""
    event_id = (number << 64 | row).to_bytes(16, "big")
    session = f"session-{row % 400:06d}-{number}"
    return (
        "bench",
        session,
        row + 1,
        event_id.hex(),
        event_id,
        None,
        event_id,
        row,
        "writer",
        row,
        "1.9.0",
        None,
        b'\x01{"workflow":"sequential"}',
        False,
        len(state),
        digest,
        row,
        0,
        row,
        state,
    )
