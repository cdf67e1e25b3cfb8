"""Nothing re-encodes: at each station on the way a state is, byte for byte, what the runtime gave."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256

import psycopg
import pytest
from confluent_kafka import Consumer, TopicPartition

from milepost.consumer import AsyncCheckpointStore, CheckpointStore
from milepost.consumer.plan import HistoryRow
from milepost.consumer.rows import CHECKPOINT_COLUMNS, checkpoint_values
from milepost.consumer.rules import Outcome
from milepost.consumer.testing import MemoryStore, MemoryView
from milepost.producer import CheckpointPublisher
from milepost.producer.testing import MemoryPublisher
from milepost.schemas import CheckpointCreated, encode
from tests.bytes.oddities import LARGE, SMALL
from tests.fixtures.commands import Milepost
from tests.fixtures.raw_kafka import RawRecord, produce_bytes
from tests.fixtures.view import FakeLog

ALL = SMALL | LARGE
AROUND = b" \t\r\n"


def event(name: str) -> CheckpointCreated:
    """The checkpoint of an oddity: its name is its id."""
    return CheckpointCreated(tenant_id="acme", session_id="odd", checkpoint_id=name, state=ALL[name])


def changed(found: Mapping[str, bytes | None], expected: Mapping[str, bytes] = ALL) -> list[str]:
    """The names of states that are missing, or not what they were."""
    return [name for name, state in expected.items() if found.get(name) != state]


def published(kafka_servers: str, topic: str, names: Mapping[str, bytes] = ALL) -> None:
    with CheckpointPublisher(kafka_servers, topic=topic, source="/runtimes/test") as publisher:
        for name in names:
            receipt = publisher.publish(event(name))
            if name in LARGE:  # they would not all fit into the queue
                receipt.result(60)
        assert publisher.flush(60) == 0


def test_the_publishers_codec() -> None:
    assert changed({name: encode(event(name), source="/x").value for name in ALL}) == []


def test_the_row_for_copy() -> None:
    log, state_at = FakeLog(), list(CHECKPOINT_COLUMNS).index("state")
    found = {}
    for name in ALL:
        record = log.append(event(name))
        assert record.event is not None
        found[name] = checkpoint_values(HistoryRow(record, record.event, 1, Outcome.APPLIED, b""))[state_at]
    assert changed({name: state for name, state in found.items() if isinstance(state, bytes)}) == []


def test_the_twin() -> None:
    publisher, view = MemoryPublisher(), MemoryView()
    for name in ALL:
        publisher.publish(event(name))
    view.apply(publisher.records)
    with MemoryStore(view) as store:
        assert changed(from_store(store)) == []


def test_the_log(kafka_servers: str, topic: str) -> None:
    published(kafka_servers, topic)
    assert changed(values(kafka_servers, topic)) == []


def test_the_view_and_what_reads_it(milepost: Milepost, kafka_servers: str, topic: str, database: str) -> None:
    milepost.run("retention", "set", "--newest", "1000")
    published(kafka_servers, topic)
    report = json.loads(milepost.run("consume", "--until-caught-up", "--json"))
    assert (report["applied"], report["quarantined"]) == (len(ALL), 0)
    assert changed(from_table(database)) == []
    with CheckpointStore(database) as store:
        assert changed(from_store(store)) == []
        infos = {info.checkpoint_id: (info.size, info.sha256) for info in store.list("acme", "odd")}
    assert infos == {name: (len(state), sha256(state).digest()) for name, state in ALL.items()}
    assert changed(asyncio.run(from_async_store(database))) == []
    some = {name: ALL[name] for name in ("$type twice", "CRLF", "lone surrogates", "white space around", *LARGE)}
    assert changed({name: milepost.run("get", "acme", "odd", name) for name in some}, some) == []


def test_the_command_line_publishes_what_it_reads(milepost: Milepost) -> None:
    for name in ("white space around", "NUL escaped", "16 MiB of emoji"):
        milepost.run("publish", "acme", "odd", "--checkpoint-id", name, stdin=ALL[name])
    milepost.run("consume", "--until-caught-up")
    for name in ("white space around", "NUL escaped", "16 MiB of emoji"):
        assert milepost.run("get", "acme", "odd", name) == ALL[name]


@pytest.mark.parametrize("member", ["data", "data_base64"])
def test_an_envelope(milepost: Milepost, kafka_servers: str, topic: str, database: str, member: str) -> None:
    """Structured mode. White space around the value of a member is the envelope's; base64 keeps it."""
    milepost.run("retention", "set", "--newest", "1000")
    # base64 makes four bytes of three, and a record has 17 MiB
    states = {name: state for name, state in ALL.items() if member == "data" or len(state) < 1_000_000}
    produce_bytes(kafka_servers, topic, [enveloped(name, member) for name in states])
    milepost.run("consume", "--until-caught-up")
    found = from_table(database)
    if member == "data":
        states = {name: state.strip(AROUND) for name, state in states.items() if name != "null"}
        assert "null" not in found
    assert changed(found, states) == []


def enveloped(name: str, member: str) -> RawRecord:
    attributes = {
        "specversion": "1.0",
        "type": "milepost.checkpoint-created.v1",
        "id": str(event(name).event_id),
        "source": "/foreign",
        "time": "2026-11-30T12:00:00Z",
        "tenantid": "acme",
        "sessionid": "odd",
        "checkpointid": name,
    }
    data = ALL[name] if member == "data" else b'"%b"' % b64encode(ALL[name])
    value = b'{"%b":\n %b ,%b' % (member.encode(), data, json.dumps(attributes).encode()[1:])
    return RawRecord(b"acme/odd", value, [(b"content-type", b"application/cloudevents+json")])


def values(servers: str, topic: str) -> dict[str, bytes]:
    """The values of the log's records by checkpoint id, read without any code of ours."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "tests", "fetch.message.max.bytes": 100_000_000})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(4)])
    found: dict[str, bytes] = {}
    while len(found) < len(ALL):
        message = consumer.poll(30)
        assert message is not None and message.error() is None
        headers = dict(message.headers() or [])
        value = message.value()
        assert isinstance(value, bytes)
        name = headers["ce_checkpointid"]
        assert isinstance(name, bytes)
        found[name.decode()] = value
    consumer.close()
    return found


def from_table(database: str) -> dict[str, bytes]:
    """The column's text; the server itself agrees on its digest and its size."""
    with psycopg.connect(database) as connection:
        rows = connection.execute(
            "select checkpoint_id, convert_to(state::text, 'UTF8'), sha256(convert_to(state::text, 'UTF8')) = sha256, "
            "octet_length(state::text) = size from milepost.checkpoints",
            binary=True,
        ).fetchall()
    assert {(digest, size) for _, _, digest, size in rows} == {(True, True)}
    return {name: bytes(state) for name, state, _, _ in rows}


def from_store(store: CheckpointStore) -> dict[str, bytes | None]:
    found = {name: store.get("acme", "odd", name) for name in ALL}
    return {name: one.state if one is not None else None for name, one in found.items()}


async def from_async_store(database: str) -> dict[str, bytes | None]:
    async with AsyncCheckpointStore(database) as store:
        found = {name: await store.get("acme", "odd", name) for name in ALL}
    return {name: one.state if one is not None else None for name, one in found.items()}
