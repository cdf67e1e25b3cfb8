"""Batches of the log as foreign publishers may make them: packed tighter, and larger, than ours ever are."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import KafkaError, Producer

from milepost.consumer.log_errors import position_error
from milepost.schemas import CheckpointCreated, WrongLog, encode
from tests.fixtures.commands import Milepost


@pytest.mark.parametrize("packed", ["zstd", "lz4", "gzip", "snappy"])
def test_a_batch_that_unfolds_to_many_megabytes(
    milepost: Milepost, kafka_servers: str, topic: str, packed: str
) -> None:
    producer = Producer(
        {
            "bootstrap.servers": kafka_servers,
            "compression.type": packed,
            "batch.size": 200_000_000,
            "message.max.bytes": 200_000_000,
            "linger.ms": 60_000,
            "partitioner": "murmur2_random",
        }
    )
    for number in range(4):
        event = CheckpointCreated(
            tenant_id="t",
            session_id="s",
            state=b'{"%d":"' % number + b"x" * 15_000_000 + b'"}',
            checkpoint_id=str(number),
        )
        encoded = encode(event, source="/foreign")
        producer.produce(topic, encoded.value, encoded.key, headers=encoded.headers)
    assert producer.flush(60) == 0
    report = json.loads(milepost.run("consume", "--until-caught-up", "--json"))
    assert (report["applied"], report["quarantined"]) == (4, 0)
    assert milepost.run("get", "t", "s", "3") == b'{"3":"' + b"x" * 15_000_000 + b'"}'


@pytest.mark.parametrize("code", [KafkaError._BAD_COMPRESSION, KafkaError._BAD_MSG])
def test_a_batch_that_cant_be_unpacked_stops_the_consumer(code: int) -> None:
    """Not to go round for ever, and not to lose what stands there."""
    with pytest.raises(
        WrongLog, match=r"offset 7 of partition 3 of log cannot be read .*nothing behind them is applied"
    ):
        position_error(KafkaError(code), "log", 3, 7)
