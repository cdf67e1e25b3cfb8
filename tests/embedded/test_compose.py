"""docker-compose.yml brings the servers that the embedded stack brings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from milepost.embedded.settings import (
    DATABASE,
    DATABASE_USER,
    KAFKA_HEAP,
    KAFKA_SETTINGS,
    KAFKA_VERSION,
    POSTGRES_INITDB,
    POSTGRES_SETTINGS,
)

_FILE = Path(__file__).parents[2] / "docker-compose.yml"
# what names the container's own ports and folders, and the image's own variables
_PLACED = {"listeners", "advertised.listeners", "controller.quorum.voters", "log.dirs"}


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    services: dict[str, Any] = YAML(typ="safe", pure=True).load(_FILE)["services"]
    return services


def test_it_is_a_compose_file() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(_FILE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_kafka_has_the_embedded_settings(services: dict[str, Any]) -> None:
    kafka = services["kafka"]
    environment: dict[str, str] = kafka["environment"]
    assert kafka["image"] == f"apache/kafka:{KAFKA_VERSION}"
    assert environment.pop("KAFKA_HEAP_OPTS") == f"-Xmx{KAFKA_HEAP}"
    assert len(environment.pop("CLUSTER_ID")) == 22
    # as the image reads them: one underscore is a dot
    settings = {k.removeprefix("KAFKA_").lower().replace("_", "."): v for k, v in environment.items()}
    assert {name: value for name, value in settings.items() if name not in _PLACED} == dict(KAFKA_SETTINGS)
    assert settings["advertised.listeners"] == f"PLAINTEXT://{kafka['ports'][0].rsplit(':', 1)[0]}"


def test_postgres_has_the_embedded_settings(services: dict[str, Any]) -> None:
    postgres = services["postgres"]
    program, *options = postgres["command"]
    assert program == "postgres"
    assert set(options[::2]) == {"-c"}
    assert dict(option.split("=", 1) for option in options[1::2]) == dict(POSTGRES_SETTINGS)
    assert tuple(postgres["environment"]["POSTGRES_INITDB_ARGS"].split()) == POSTGRES_INITDB
    assert postgres["environment"]["POSTGRES_DB"] == DATABASE
    assert f"--username={DATABASE_USER}" in postgres["healthcheck"]["test"]


def test_both_are_loopback_only_healthy_and_kept(services: dict[str, Any]) -> None:
    for service in services.values():
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
        assert service["healthcheck"]["test"][0] == "CMD"
        assert len(service["volumes"]) == 1
    named = YAML(typ="safe", pure=True).load(_FILE)["volumes"]
    assert set(named) == {service["volumes"][0].split(":")[0] for service in services.values()}
