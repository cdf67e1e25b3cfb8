"""A copy of a database, consumed beside its original: each is a view of its own and gets the whole log."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import conninfo, sql

from milepost.consumer.config import ConsumeConfig
from milepost.consumer.supervisor import prepare
from tests.availability.running import Running, config, offsets, publish


@pytest.fixture
def copy(database: str, kafka_servers: str, topic: str) -> Iterator[str]:
    """A copy of `database`, made when it was a view of the topic already."""
    prepare(config(kafka_servers, topic, database), until_caught_up=False)
    name = f"test_{uuid.uuid4().hex[:12]}"
    place = conninfo.make_conninfo(database, dbname=name)
    original = sql.Identifier(str(conninfo.conninfo_to_dict(database)["dbname"]))
    with psycopg.connect(conninfo.make_conninfo(database, dbname="postgres"), autocommit=True) as server:
        server.execute(sql.SQL("create database {} template {}").format(sql.Identifier(name), original))
        try:
            yield place
        finally:
            server.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


def test_a_copy_is_a_group_of_its_own(kafka_servers: str, topic: str, database: str, copy: str) -> None:
    groups = [_group(config(kafka_servers, topic, place)) for place in (database, copy, database)]
    assert groups[0] == groups[2] != groups[1]
    with psycopg.connect(database) as connection:
        found = connection.execute("select view_id::text from milepost.view").fetchone()
    assert found is not None
    assert all(group.startswith(f"milepost-{found[0]}-") for group in groups)


def test_both_get_the_whole_log(kafka_servers: str, topic: str, database: str, copy: str) -> None:
    with (
        Running(config(kafka_servers, topic, database)) as original,
        Running(config(kafka_servers, topic, copy)) as copied,
    ):
        original.wait_until_reading()
        copied.wait_until_reading()
        publish(kafka_servers, topic, *"abcdefgh")
        original.wait_for_events(8)
        copied.wait_for_events(8)
    assert offsets(database) == offsets(copy)


def _group(found: ConsumeConfig) -> str:
    return prepare(found, until_caught_up=False).group
