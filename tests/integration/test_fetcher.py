"""Reading the log past what Kafka's client does not recover from."""

from __future__ import annotations

from contextlib import closing

from milepost.consumer.contact import Contact
from milepost.consumer.fetcher import Fetcher
from tests.fixtures.commands import wait_until
from tests.fixtures.raw_kafka import RawRecord, produce_bytes


class Lost(Contact):
    """Of a client that knows no broker, whatever its statistics say."""

    is_lost = True


def test_a_client_that_knows_no_broker_any_more_is_made_anew(kafka_servers: str, topic: str) -> None:
    produce_bytes(kafka_servers, topic, [RawRecord(b"a/b", b"%d" % number, []) for number in range(3)], partition=0)
    with closing(Fetcher(kafka_servers, topic, "milepost-test")) as fetcher:
        fetcher.assign({0: 0})
        found: list[bytes | None] = []

        def read() -> int:
            found.extend(raw.value for raw in fetcher.fetch(10, 0.1).records)
            return len(found)

        wait_until(lambda: read() == 3, "the first three")
        client = fetcher._consumer
        fetcher._contact = Lost()
        read()
        assert fetcher._consumer is not client
        assert not fetcher._contact.is_lost
        produce_bytes(kafka_servers, topic, [RawRecord(b"a/b", b"3", [])], partition=0)
        wait_until(lambda: read() == 4, "what came later")
    assert found == [b"0", b"1", b"2", b"3"]
