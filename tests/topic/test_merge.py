"""Partitions come together by the log's time, each in its own order, whatever is held at once."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing

import pytest

from milepost.consumer import kafka
from milepost.consumer.log import ends, identify
from milepost.consumer.topic.merge import MergedLog
from tests.topic.reading import Found, topic_with_times

PARTITIONS = 3


def a_log(uneven: bool) -> list[Found]:
    """Records in each partition with growing times, one partition long after the others where it is uneven."""
    chosen = random.Random(5)
    times = [1_700_000_000_000] * PARTITIONS
    records = []
    for number in range(3_000):
        partition = number // 1_000 if uneven else chosen.randrange(PARTITIONS)
        times[partition] += chosen.choice([0, 0, 1, 50])
        records.append(Found(partition, times[partition], b"k%d" % partition, b"%d" % number * 100, ()))
    return records


def merged(records: list[Found]) -> Iterator[bytes | None]:
    """The order by definition: the partition whose next record is the oldest, the lower one of two."""
    queues = {p: [record for record in records if record.partition == p] for p in range(PARTITIONS)}
    while any(queues.values()):
        partition = min((queue[0].time, p) for p, queue in queues.items() if queue)[1]
        yield queues[partition].pop(0).value


@pytest.mark.parametrize("uneven", [False, True])
@pytest.mark.parametrize("held_bytes", [0, 100_000, 2**26])
def test_the_order_hangs_on_the_log_alone(kafka_servers: str, uneven: bool, held_bytes: int) -> None:
    records = a_log(uneven)
    topic = topic_with_times(kafka_servers, PARTITIONS, records)
    client = kafka.admin(kafka_servers)
    end = ends(client, kafka_servers, identify(client, kafka_servers, topic))
    found: list[bytes | None] = []
    most = 0
    with closing(MergedLog(kafka_servers, topic, end, held_bytes=held_bytes)) as log:
        while not log.is_done:
            found += [message.value() for message in log.read(5.0)]
            most = max(most, sum(map(len, log._queues.values())))
    assert found == list(merged(records))
    assert most < len(records) or held_bytes > 100_000
