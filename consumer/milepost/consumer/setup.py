"""`milepost setup`: topic and schema, safe to repeat and to run several times at once."""

from __future__ import annotations

from contextlib import closing

import msgspec

from milepost.consumer import kafka, policies
from milepost.consumer.database import connect, translated
from milepost.consumer.log import LogIdentity, check_topic, create_topic
from milepost.consumer.migrate import apply
from milepost.consumer.watch import require


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
        created = create_topic(client, servers, topic, partitions, replication_factor)
        check_topic(client, servers, topic)
        applied = apply(connection)
        log = require(client, servers, connection, topic)
        if newest is not None:
            policies.set_default(connection, newest)
        default = policies.default_newest(connection)
    return SetupReport(log, created, [f"{migration.number:04d}_{migration.name}" for migration in applied], default)
