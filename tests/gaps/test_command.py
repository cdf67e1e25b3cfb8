"""`milepost audit gaps` and the line in `milepost status`: provoked losses are counted exactly, none is made up."""

from __future__ import annotations

import json
from pathlib import Path

from milepost.producer import CheckpointPublisher
from tests.fixtures.commands import Milepost
from tests.fixtures.proxy import KafkaProxy
from tests.producer.helpers import NOBODY, created, wait_until


def test_a_provoked_drop_is_counted_exactly(milepost: Milepost, kafka_servers: str, topic: str) -> None:
    with KafkaProxy(kafka_servers) as proxy:
        proxy.refuse()
        with CheckpointPublisher(proxy.servers, topic=topic, source="/runtimes/x", queue_bytes=200_000) as publisher:
            for number in range(100):
                publisher.publish(created(number, f"s{number % 5}", size=5_000))
            lost = publisher.stats().failed
            proxy.accept()
            assert publisher.flush(30) == 0
            publisher.publish(created(100)).result(15)
    assert lost > 50
    milepost.run("consume", "--until-caught-up")
    found = json.loads(milepost.run("audit", "gaps", "--settle", "0", "--json", expect=1))
    assert found["missing"] == lost
    (row,) = found["publishers"]
    assert (row["publisher_id"], row["source"]) == (str(publisher.stats().publisher_id), "/runtimes/x")
    assert (row["events"], row["highest_seq"], row["missing"]) == (101 - lost, 101, lost)
    assert str(lost) in milepost.run("audit", "gaps", "--settle", "0", expect=1).decode()
    assert json.loads(milepost.run("status", "--json"))["missing"] == lost
    assert f"missing           {lost} (run: milepost audit gaps)" in milepost.run("status").decode()


def test_cuts_and_a_spool_make_up_no_loss(milepost: Milepost, kafka_servers: str, topic: str, tmp_path: Path) -> None:
    with KafkaProxy(kafka_servers) as proxy:
        for servers in (NOBODY, proxy.servers):
            publisher = CheckpointPublisher(servers, topic=topic, spool=tmp_path, kafka={"reconnect.backoff.ms": 10})
            for number in range(600):
                publisher.publish(created(number, f"s{number % 5}"))
                if number % 100 == 50 and servers != NOBODY:
                    wait_until(lambda: proxy.connections > 0)
                    proxy.cut()
            publisher.close(0.2 if servers == NOBODY else 30)
    milepost.run("consume", "--until-caught-up", "--processes", "2")
    found = json.loads(milepost.run("audit", "gaps", "--json"))
    assert [(row["events"], row["highest_seq"], row["missing"]) for row in found["publishers"]] == [(600, 600, 0)] * 2
    assert b"nothing is missing of 2 publishers" in milepost.result("audit", "gaps").stderr
    assert json.loads(milepost.run("status", "--json"))["missing"] == 0


def test_a_view_that_is_behind_gives_no_answer(milepost: Milepost, kafka_servers: str, topic: str) -> None:
    with CheckpointPublisher(kafka_servers, topic=topic) as publisher:
        publisher.publish(created())
    done = milepost.result("audit", "gaps", "--timeout", "0")
    assert done.returncode == 3
    assert "the view is 1 records behind the log" in done.stderr.decode()
