"""The servers' settings: the one place that the embedded stack and docker-compose.yml's test both read."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

ServerName = Literal["kafka", "postgres"]

TOPIC: Final = "milepost.events"
DATABASE: Final = "milepost"
DATABASE_USER: Final = "postgres"
LOOPBACK: Final = "127.0.0.1"

KAFKA_VERSION: Final = "4.2.2"
KAFKA_HEAP: Final = "512m"
KAFKA_OLDEST_JAVA: Final = 17
KAFKA_NODE: Final = 1

# everything that does not name a port or a folder
KAFKA_SETTINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "process.roles": "broker,controller",
        "node.id": str(KAFKA_NODE),
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        # one node
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "default.replication.factor": "1",
        "min.insync.replicas": "1",
        # 50 partitions each by default
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
        # a mistyped topic name must fail, not make a topic
        "auto.create.topics.enable": "false",
        # 17 MiB: a state may have 16
        "message.max.bytes": "17825792",
        "replica.fetch.max.bytes": "17825792",
        "num.network.threads": "2",
        "num.io.threads": "4",
        "num.recovery.threads.per.data.dir": "2",
        "log.segment.bytes": "134217728",
        # 128 MB of the heap by default
        "log.cleaner.dedupe.buffer.size": "4194304",
        # a restart after kill -9 waits for the old session: 5 s instead of 13
        "broker.session.timeout.ms": "2000",
        "broker.heartbeat.interval.ms": "500",
    }
)

POSTGRES_OLDEST: Final = 15

POSTGRES_SETTINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        # shown in the process list; also how a lost server is found again
        "cluster_name": "milepost",
        "max_connections": "200",
        "shared_buffers": "256MB",
        "max_wal_size": "4GB",
        # what is committed survives a power cut
        "fsync": "on",
        "synchronous_commit": "on",
        # short queries only, and not every build has it
        "jit": "off",
        "timezone": "UTC",
        "log_timezone": "UTC",
        "log_line_prefix": "%m [%p] ",
    }
)

POSTGRES_INITDB: Final = ("--auth-host=scram-sha-256", "--encoding=UTF8", "--locale=C.UTF-8", "--data-checksums")
