"""What a client remembers of a broker that was restarted must not hold it up."""

from __future__ import annotations

from milepost.consumer import kafka
from milepost.consumer.log import create_topic, ends, identify
from milepost.schemas import KafkaUnavailable
from tests.chaos.process import wait_until
from tests.chaos.servers import Servers


def test_the_ends_of_a_log_are_told_after_the_brokers_restart(servers: Servers) -> None:
    client = kafka.admin(servers.kafka)
    create_topic(client, servers.kafka, "restarted", 2, 1)
    log = identify(client, servers.kafka, "restarted")
    assert ends(client, servers.kafka, log) == {0: 0, 1: 0}
    servers.stop("kafka")
    servers.start("kafka")

    def told() -> bool:
        try:
            return ends(client, servers.kafka, log) == {0: 0, 1: 0}
        except KafkaUnavailable:
            return False

    wait_until(told, "the ends of the log", 5.0)
