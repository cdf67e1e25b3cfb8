"""The documents: valid by their own standards, and equal to the code and to each other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft7Validator, Draft202012Validator

from milepost.schemas import MAX_DEPTH, MAX_STATE_BYTES, Kind, decode
from milepost.schemas.published import asyncapi, json_schema
from milepost.schemas.wire import DEFAULT_PARTITIONS, DEFAULT_TOPIC, TOPIC_CONFIG, TYPES
from tests.wire.helpers import CREATED, DELETED, instance, received, validator

MESSAGES = {"checkpointCreated": CREATED, "sessionDeleted": DELETED}
V1_REQUIRED = {
    *("ce_specversion", "ce_type", "ce_id", "ce_source", "ce_time", "ce_tenantid", "ce_sessionid"),
}
"""Rule 4 of docs/wire.md: v1 requires these, and never another."""


def _nodes(node: Any) -> Iterator[dict[str, Any]]:
    """All objects of a document."""
    if isinstance(node, dict):
        yield node
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _nodes(child)


def _resolve(document: Any, ref: str) -> Any:
    assert ref.startswith("#/")
    for part in ref[2:].split("/"):
        document = document[part]
    return document


def _as_asyncapi(node: Any) -> Any:
    return json.loads(json.dumps(node).replace("#/$defs/", "#/components/schemas/"))


@pytest.mark.parametrize("kind", list(Kind))
def test_a_schema_is_valid_2020_12(kind: Kind) -> None:
    schema = json_schema(kind)
    assert schema["$schema"] == Draft202012Validator.META_SCHEMA["$id"]
    Draft202012Validator.check_schema(schema)
    for node in _nodes(schema):
        Draft202012Validator.check_schema(node.get("contentSchema", True))


@pytest.mark.parametrize("kind", list(Kind))
def test_an_id_is_a_urn_and_names_no_host(kind: Kind) -> None:
    schema = json_schema(kind)
    assert schema.pop("$id") == f"urn:milepost:wire:v1:{kind}"
    del schema["$schema"]
    assert [node for node in _nodes(schema) if "$id" in node] == []
    assert "://" not in json.dumps(schema) + json.dumps(asyncapi())


@pytest.mark.parametrize("document", [asyncapi(), *map(json_schema, Kind)], ids=["asyncapi", *Kind])
def test_every_reference_resolves(document: dict[str, Any]) -> None:
    references = [node["$ref"] for node in _nodes(document) if "$ref" in node]
    assert all(_resolve(document, ref) is not None for ref in references)
    assert len(references) > 20


@pytest.mark.parametrize("document", [asyncapi(), *map(json_schema, Kind)], ids=["asyncapi", *Kind])
def test_a_reference_stands_alone(document: dict[str, Any]) -> None:
    """Draft 07 and AsyncAPI ignore what stands beside a `$ref`."""
    assert [node for node in _nodes(document) if "$ref" in node and len(node) > 1] == []


def test_a_new_dict_comes_on_each_call() -> None:
    asyncapi().clear()
    assert asyncapi()["asyncapi"] == "3.0.0"
    with pytest.raises(ValueError, match="state-gone"):
        json_schema("state-gone")


def test_asyncapi_has_the_fields_of_its_standard() -> None:
    document = asyncapi()
    assert set(document) <= {
        "asyncapi",
        "id",
        "info",
        "defaultContentType",
        "servers",
        "channels",
        "operations",
        "components",
    }
    assert document["asyncapi"] == "3.0.0"
    assert document["id"].startswith("urn:")
    assert {"title", "version"} <= set(document["info"])
    assert set(document["components"]) == {"messages", "schemas"}
    for message in document["components"]["messages"].values():
        assert set(message) <= {"name", "title", "headers", "payload", "contentType", "bindings", "examples"}
        assert message["bindings"]["kafka"]["bindingVersion"] == "0.5.0"


def test_asyncapi_schemas_are_valid_draft_07() -> None:
    """What AsyncAPI's own schema objects are a superset of."""
    document = asyncapi()
    for schema in document["components"]["schemas"].values():
        Draft7Validator.check_schema(schema)
    for message in document["components"]["messages"].values():
        Draft7Validator.check_schema(message["payload"])
        Draft7Validator.check_schema(message["bindings"]["kafka"]["key"])


def test_operations_and_channel_carry_both_messages() -> None:
    document = asyncapi()
    (channel,) = document["channels"].values()
    assert {name: ref["$ref"] for name, ref in channel["messages"].items()} == {
        name: f"#/components/messages/{name}" for name in MESSAGES
    }
    for operation in document["operations"].values():
        assert operation["channel"] == {"$ref": "#/channels/log"}
        assert [ref["$ref"] for ref in operation["messages"]] == [
            f"#/channels/log/messages/{name}" for name in MESSAGES
        ]
    assert sorted(operation["action"] for operation in document["operations"].values()) == ["receive", "send"]


def test_the_topic_is_the_one_of_the_code() -> None:
    channel = asyncapi()["channels"]["log"]
    binding = channel["bindings"]["kafka"]
    assert channel["address"] == binding["topic"] == DEFAULT_TOPIC
    assert binding["partitions"] == DEFAULT_PARTITIONS
    settings = binding["topicConfiguration"]
    assert {**settings, "cleanup.policy": ",".join(settings["cleanup.policy"])} == {
        name: int(value) if value.lstrip("-").isdigit() else value for name, value in TOPIC_CONFIG.items()
    }


@pytest.mark.parametrize(("name", "kind"), MESSAGES.items())
def test_asyncapi_repeats_the_schemas(name: str, kind: Kind) -> None:
    components = asyncapi()["components"]
    definitions = _as_asyncapi(json_schema(kind)["$defs"])
    assert components["schemas"][f"{name}Headers"] == definitions.pop("headers")
    assert {definition: components["schemas"][definition] for definition in definitions} == definitions
    message = components["messages"][name]
    assert TYPES[message["name"].encode()] is kind
    assert message["headers"] == {"$ref": f"#/components/schemas/{name}Headers"}
    assert message["bindings"]["kafka"]["key"] == {"allOf": [{"$ref": "#/components/schemas/key"}]}


@pytest.mark.parametrize(("name", "kind"), MESSAGES.items())
def test_the_examples_are_events(name: str, kind: Kind) -> None:
    (example,) = asyncapi()["components"]["messages"][name]["examples"]
    headers = example["headers"]
    key = headers["ce_partitionkey"].encode()
    validator(kind).validate(instance(key, list(headers.items())))
    headers.pop("ce_statesha256", None)  # of the bytes in docs/wire.md
    value = None if example["payload"] is None else json.dumps(example["payload"]).encode()
    assert decode(key, value, received(list(headers.items()))).kind is kind


def test_the_limits_of_a_state_are_those_of_the_code() -> None:
    state = asyncapi()["components"]["schemas"]["state"]
    assert (state["x-max-bytes"], state["x-max-depth"]) == (MAX_STATE_BYTES, MAX_DEPTH)


def test_v1_requires_what_it_always_required() -> None:
    assert set(json_schema(DELETED)["$defs"]["headers"]["required"]) == V1_REQUIRED
    assert set(json_schema(CREATED)["$defs"]["headers"]["required"]) == V1_REQUIRED | {"ce_checkpointid"}
