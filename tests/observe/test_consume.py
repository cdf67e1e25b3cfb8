"""`milepost consume --http`: what its pages say while servers stop, workers are killed, and the port is taken."""

from __future__ import annotations

import json
import os
import signal
import socket
from pathlib import Path

import psycopg

from milepost.schemas import CheckpointCreated
from tests.fixtures.commands import Milepost, stop, wait_until
from tests.fixtures.publishing import produce, produce_raw
from tests.integration.test_consume import workers
from tests.observe.scraping import events, pages

ANY_PORT = ("--http", "127.0.0.1:0")


def made(number: int) -> list[CheckpointCreated]:
    return [
        CheckpointCreated(tenant_id="acme", session_id=f"s{step % 8}", state=b"%d" % step, step=step)
        for step in range(number)
    ]


def test_what_was_done_is_counted(
    milepost: Milepost, kafka_servers: str, topic: str, database: str, tmp_path: Path
) -> None:
    milepost.run("retention", "set", "--newest", "3")
    happened = made(100)
    produce(kafka_servers, topic, [*happened, happened[0], happened[7]])
    produce_raw(kafka_servers, topic, [(b"acme/bad", b"{", [])])
    log = tmp_path / "log"
    with milepost.running("consume", *ANY_PORT, log=log) as process:
        page = pages(log)
        page.wait_until_ready()
        wait_until(lambda: page.samples()["milepost_events_total", "quarantined"] == 1, "all events")
        wait_until(lambda: sum(lag(page.samples()).values()) == 0 and len(lag(page.samples())) == 4, "the log's ends")
        found = page.samples()
        assert page.get("/healthz") == (200, b'{"healthy":true,"reasons":[]}\n')
        assert page.ready() == (200, [])
        assert stop(process) == 0
    assert found["milepost_events_total", "applied"] == 100
    assert found["milepost_events_total", "duplicate"] == 2
    assert found["milepost_quarantined_total", "not_a_cloudevent"] == 1
    with psycopg.connect(database) as connection:
        offsets: dict[int, int] = dict(
            connection.execute("select partition, next_offset from milepost.partitions").fetchall()
        )
        live = connection.execute("select count(*) from milepost.checkpoints").fetchone()
    assert live == (24,)
    assert found["milepost_states_written_total", ""] + found["milepost_states_skipped_total", ""] == 100
    assert found["milepost_states_pruned_total", ""] == 100 - 24
    assert {int(p): value for (name, p), value in found.items() if name == "milepost_position_offset"} == offsets
    assert found["milepost_batch_events_sum", ""] == 103
    assert found["milepost_state_bytes_total", ""] == sum(len(event.state) for event in happened) + 2
    assert found["milepost_assigned_partitions", ""] == 4
    assert found["milepost_ready", ""] == found["milepost_workers", ""] == 1
    assert found["milepost_server_up", "kafka"] == found["milepost_server_up", "postgres"] == 1


def lag(samples: dict[tuple[str, str], float]) -> dict[str, float]:
    return {label: value for (name, label), value in samples.items() if name == "milepost_lag_records"}


def test_a_killed_worker_leaves_its_counts_and_nothing_else(
    milepost: Milepost, kafka_servers: str, topic: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with milepost.running("consume", "--processes", "2", *ANY_PORT, log=log) as process:
        page = pages(log)
        page.wait_until_ready()
        produce(kafka_servers, topic, made(200))
        wait_until(lambda: page.samples()["milepost_events_total", "applied"] == 200, "the events")
        assert page.samples()["milepost_assigned_partitions", ""] == 4
        os.kill(workers(process.pid)[0], signal.SIGKILL)
        wait_until(lambda: page.samples()["milepost_assigned_partitions", ""] < 4, "the death")
        assert page.samples()["milepost_events_total", "applied"] == 200
        assert page.ready()[0] == 503
        wait_until(lambda: page.samples()["milepost_worker_restarts_total", ""] == 1, "another worker")
        assert page.samples()["milepost_events_total", "applied"] == 200
        assert stop(process) == 0
    assert [line["worker"] in (1, 2) for line in events(log, "worker_ended")] == [True]


def test_an_address_that_cannot_be_had_ends_it_before_it_begins(milepost: Milepost) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = milepost.result("consume", "--until-caught-up", "--http", address)
        assert (done.returncode, done.stdout) == (3, b"")
        assert f"could not listen on {address} (Address already in use)" in done.stderr.decode()
    done = milepost.result("consume", "--http", "9464")
    assert (done.returncode, done.stdout) == (2, b"")
    assert "expected HOST:PORT such as 127.0.0.1:9464, found '9464'" in done.stderr.decode()


def test_without_it_nothing_listens_and_nothing_is_loaded(milepost: Milepost, kafka_servers: str, topic: str) -> None:
    produce(kafka_servers, topic, made(5))
    milepost.environment["PYTHONPROFILEIMPORTTIME"] = "1"
    done = milepost.result("consume", "--until-caught-up", "--json")
    assert json.loads(done.stdout)["applied"] == 5
    loaded = done.stderr.decode()
    assert "milepost.consumer.observe.observer" in loaded
    assert "prometheus_client" not in loaded
    assert "http.server" not in loaded
