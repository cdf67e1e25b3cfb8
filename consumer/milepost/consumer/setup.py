"""`milepost setup`: topic and schema, safe to repeat and to run several times at once."""

from __future__ import annotations

from contextlib import closing

import msgspec
from confluent_kafka.admin import AdminClient

from milepost.consumer import kafka, policies
from milepost.consumer.database import Connection, connect, has_schema, translated
from milepost.consumer.log import LogIdentity, check_topic, create_topic, find
from milepost.consumer.migrate import apply, available, pending
from milepost.consumer.watch import bound_log, compare, require
from milepost.schemas import WrongLog


class SetupReport(msgspec.Struct, frozen=True):
    """What `setup` found and did."""

    log: LogIdentity
    topic_created: bool
    migrations_applied: list[str]
    newest: int
    """The default policy: how many checkpoints of a session stay."""


def setup(
    servers: str, topic: str, database: str, *, partitions: int, replication_factor: int, newest: int | None
) -> SetupReport:
    """Create what is missing, and check what is there.

    Raises `WrongLog` for a topic whose settings would break a promise, `WrongView` for a database that would.
    """
    client = kafka.admin(servers)
    with closing(connect(database, application="milepost-setup")) as connection, translated(database):
        # everything is looked at before anything is made: a refusal must leave nothing behind
        _check_view(connection, client, servers, topic)
        applied = apply(connection)
        created = create_topic(client, servers, topic, partitions, replication_factor)
        check_topic(client, servers, topic)
        log = require(client, servers, connection, topic)
        if newest is not None:
            policies.set_default(connection, newest)
        default = policies.default_newest(connection)
    return SetupReport(log, created, [f"{migration.number:04d}_{migration.name}" for migration in applied], default)


def _check_view(connection: Connection, client: AdminClient, servers: str, topic: str) -> None:
    """Raise what would be found wrong later: a topic or a view that does not fit, or a topic that the view has lost."""
    found = find(client, servers, topic)
    if found is not None:
        check_topic(client, servers, topic)
    if not has_schema(connection):
        return
    pending(connection, available())
    bound = bound_log(connection)
    if bound is None:
        return
    if found is None:
        raise WrongLog(
            f"the view was built from {bound}, and there is no topic {topic}: a new one would not be that log"
        )
    compare(bound, found)
