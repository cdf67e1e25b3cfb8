"""docs/wire.md holds: its table, its records to the byte, its Python."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest
from msgspec.structs import replace

from milepost.schemas import CheckpointCreated, Event, InvalidRecord, Kind, Reason, SessionDeleted, decode, encode
from milepost.schemas.partitioning import murmur2
from milepost.schemas.published import json_schema
from milepost.schemas.wire import KNOWN_ATTRIBUTES
from tests.wire.helpers import CREATED, DELETED, consume, instance, received, validator

GUIDE = Path(__file__).parents[2].joinpath("docs", "wire.md").read_text(encoding="utf-8")
EVENTS: dict[str, Event] = {
    "created": CheckpointCreated(
        tenant_id="acme",
        session_id="conversation-7",
        state=b'{"$type": "Support", "turns": 3, "score": 1.0}',
        checkpoint_id="0197a2c4b1d07c3e9f5a6b7c8d9e0f10",
        parent_id="0197a2c4a9f87d11b2c3d4e5f6071829",
        run_id=UUID("0197a2c4-9c00-7aaa-8bbb-0c0d0e0f1011"),
        step=2,
        next_node="answer",
        framework_version="langgraph 1.0.3",
        schema_version=4,
        pinned=True,
        labels={"workflow": "support"},
        created_at=datetime(2026, 3, 1, 12, 30, 45, 123456, UTC),
        event_id=UUID("0197a2c4-b1d1-7000-8000-000000000001"),
    ),
    "deleted": SessionDeleted(
        tenant_id="acme",
        session_id="conversation-7",
        reason="asked for by the user",
        deleted_at=datetime(2026, 3, 2, 8, tzinfo=UTC),
        event_id=UUID("0197a2c8-0000-7000-8000-000000000002"),
    ),
}


def _block(fence: str) -> str:
    (block,) = re.findall(rf"^```{re.escape(fence)}\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)
    return str(block)


def _shown(name: str, value: str | bytes | None) -> str:
    if value is None:
        return f"{name:<20} {'-':>3}"
    data = value.encode() if isinstance(value, str) else value
    return f"{name:<20} {len(data):>3}  {data.decode()}"


@pytest.mark.parametrize("name", list(EVENTS))
def test_the_records_to_the_byte_are_what_encode_makes(name: str) -> None:
    record = encode(EVENTS[name], source="/runtimes/support")
    lines = [_shown(*field) for field in (("key", record.key), *record.headers, ("value", record.value))]
    assert _block(f"record {name}").splitlines() == lines


def test_the_table_is_the_schemas() -> None:
    rows = re.findall(
        r"^\| `([a-z_-]+[0-9]*)` \| (required|optional|\u2013) \| (required|optional|\u2013) \|", GUIDE, re.MULTILINE
    )
    table = {name: (checkpoint, deletion) for name, checkpoint, deletion in rows}
    assert set(table) == KNOWN_ATTRIBUTES | {"content-type", "traceparent", "tracestate"}
    for column, kind in enumerate((CREATED, DELETED)):
        headers = json_schema(kind)["$defs"]["headers"]
        required = {name for name, cells in table.items() if cells[column] == "required"}
        assert required == set(headers["required"])
        meaningless = {name for name, cells in table.items() if cells[column] == "\u2013"}
        for name in meaningless & headers["properties"].keys():
            assert "Says nothing about" in headers["properties"][name]["description"]
        assert not [name for name in table.keys() - meaningless if name not in headers["properties"]]


def test_the_partition_is_the_one_named() -> None:
    (key, partition) = re.findall(r"In the topic (\S+) goes to partition (\d+) of 12", GUIDE)[0]
    assert (murmur2(key.encode()) & 0x7FFFFFFF) % 12 == int(partition)


def test_the_python_runs_and_its_record_is_accepted(kafka_servers: str, topic: str) -> None:
    script = _block("python").replace("localhost:9092", kafka_servers).replace("milepost.events", topic)
    exec(compile(script, "docs/wire.md", "exec"), {"__name__": "guide"})
    (record,) = consume(kafka_servers, topic, 1)
    envelope = decode(record.key, record.value, record.headers)
    validator(CREATED).validate(instance(record.key, record.headers))
    assert envelope.state == b'{"$type": "Support", "turns": 3, "score": 1.0}'
    assert (record.partition, envelope.session_id) == (
        (murmur2(b"acme/conversation-7") & 0x7FFFFFFF) % 4,
        "conversation-7",
    )


def test_rule_1_a_new_attribute_is_kept_and_changes_nothing() -> None:
    record = encode(EVENTS["created"], source="/runtimes/support")
    plain = decode(record.key, record.value, received(record.headers))
    headers = [*record.headers, ("ce_priority", b"high")]
    validator(CREATED).validate(instance(record.key, headers))
    assert decode(record.key, record.value, received(headers)) == replace(plain, extensions=b'{"priority":"high"}')


@pytest.mark.parametrize("name", ["milepost.checkpoint-deleted.v1", "milepost.checkpoint-created.v2"])
def test_rules_2_and_5_another_kind_or_version_waits_in_quarantine(name: str) -> None:
    record = encode(EVENTS["created"], source="/runtimes/support")
    headers = [(key, name if key == "ce_type" else value) for key, value in record.headers]
    with pytest.raises(InvalidRecord) as refused:
        decode(record.key, record.value, received(headers))
    assert refused.value.reason is Reason.UNKNOWN_KIND
    assert not any(validator(kind).is_valid(instance(record.key, headers)) for kind in Kind)
