"""The commands on a real log: verify, keygen and seal, whole and from a position on, and logs that are not what they were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka import TopicPartition
from psycopg import conninfo

from milepost.consumer import kafka
from milepost.consumer.audit import VerifyRequest, verify
from milepost.consumer.cli.commands import run
from milepost.consumer.log import create_topic
from milepost.schemas import CheckpointCreated, Event, Position
from tests.audit.conftest import edit, temporary
from tests.fixtures.commands import Milepost, stop, wait_until
from tests.fixtures.publishing import produce, produce_raw
from tests.fixtures.servers import PARTITIONS
from tests.properties.test_view_laws import set_newest


def events(first: int, last: int) -> list[Event]:
    return [
        CheckpointCreated(
            tenant_id="acme", session_id=f"s{number % 7}", checkpoint_id=f"c{number}", state=b"%d" % number
        )
        for number in range(first, last)
    ]


@pytest.fixture
def live(milepost: Milepost, kafka_servers: str, topic: str, database: str) -> Milepost:
    """A live view that has pruned, with a record in the quarantine."""
    set_newest(database, 3)
    produce(kafka_servers, topic, events(0, 60))
    produce_raw(kafka_servers, topic, [(b"acme/s1", b"no event", [("a", b"\xff"), ("a", None)])])
    milepost.run("consume", "--until-caught-up")
    return milepost


def report_of(command: Milepost, *more: str, expect: int = 0) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(command.run("audit", "verify", "--json", *more, expect=expect))
    return report


def test_seals_of_a_real_log(
    live: Milepost, kafka_servers: str, topic: str, database: str, empty_database: str, tmp_path: Path
) -> None:
    """Sealed, consumed on, restored from an older copy; then the topic made again with one other state."""
    key, seal, later = (str(tmp_path / name) for name in ("key", "seal", "later"))
    live.run("audit", "keygen", "--to", key)
    live.run("audit", "seal", "--key", key, "--to", seal)
    with temporary(database, str(conninfo.conninfo_to_dict(database)["dbname"])) as older:
        produce(kafka_servers, topic, events(60, 70))
        live.run("consume", "--until-caught-up")
        Path(later).write_bytes(live.run("audit", "seal", "--key", key))
        seals = ("--seal", seal, "--seal", later, "--public-key", f"{key}.pub")
        report = report_of(live, "--against-log", *seals)
        assert (report["verified"], report["rows"]["log"], report["rows"]["history"]) == (True, 71, 70)
        assert [each["unchecked"] for each in report["seals"]] == [[], []]
        restored = Milepost({**live.environment, "MILEPOST_DATABASE": older})
        report = report_of(restored, *seals, expect=1)
    assert set(report["by_field"]) == {"partitions.next_offset"}
    assert {deviation["key"]["seal"] for deviation in report["first"]} == {later}

    client = kafka.admin(kafka_servers)
    client.delete_topics([topic])[topic].result(30)
    wait_until(lambda: create_topic(client, kafka_servers, topic, PARTITIONS, 1), "the topic to be gone")
    produce(kafka_servers, topic, [*events(0, 40), *events(400, 401), *events(41, 71)])
    live.run("replay", "--into", empty_database)
    rebuilt = Milepost({**live.environment, "MILEPOST_DATABASE": empty_database})
    report = report_of(rebuilt, "--against-log", "--seal", seal, "--public-key", f"{key}.pub", expect=1)
    assert {"partitions.topic_id", "partitions.digest"} <= set(report["by_field"])
    assert all(name.startswith("partitions.") for name in report["by_field"])
    done = live.result("audit", "verify", "--against-log")
    assert (done.returncode, b"created again under the old name" in done.stderr) == (3, True)


def test_beside_a_consumer_from_positions_on_and_without_a_beginning(
    live: Milepost, kafka_servers: str, topic: str, database: str, empty_database: str, tmp_path: Path
) -> None:
    def verified(*since: Position, place: str = database) -> tuple[list[str], list[str], dict[str, int]]:
        request = VerifyRequest(database=place, kafka=kafka_servers, against_log=True, since=since)
        report = verify(request)
        assert report.verified == (not report.by_field and not report.unchecked)
        return list(report.by_field), report.unchecked, report.rows

    with live.running("consume", log=tmp_path / "log") as process:
        produce(kafka_servers, topic, events(100, 1_000))
        while sum(record for name, record in verified()[2].items() if name == "log") < 961:
            assert verified()[:2] == ([], [])
        assert stop(process) == 0
    live.run("replay", "--into", empty_database, "--tenant", "acme", "--session", "s3")
    deviating, unchecked, rows = verified(place=empty_database)
    assert (deviating, unchecked, rows["sessions"]) == ([], [], 1)
    with psycopg.connect(database) as connection:
        ends: dict[int, int] = dict(
            connection.execute("select partition, next_offset from milepost.partitions").fetchall()
        )
    half = [Position(topic, partition, offset // 2) for partition, offset in ends.items()]
    deviating, unchecked, rows = verified(*half)
    assert (deviating, unchecked, rows["log"]) == ([], [], sum(end - end // 2 for end in ends.values()))
    arguments = [f"--since={position.partition}@{position.offset}" for position in half]
    assert report_of(live, *arguments)["notes"] == [
        "totals, publishers and digests of partitions verified from a position on were not compared"
    ]
    partition = max(ends, key=lambda each: ends[each])
    client = kafka.admin(kafka_servers)
    client.delete_records([TopicPartition(topic, partition, 3)])[TopicPartition(topic, partition)].result(10)
    deviating, unchecked, _ = verified()
    assert deviating == []
    assert [line.partition(":")[0] for line in unchecked] == [
        f"records 0 to 2 of partition {partition} are gone from the log"
    ]
    done = live.result("audit", "verify", "--against-log")
    assert (done.returncode, b"not checked: records 0 to 2" in done.stderr) == (3, True)
    assert verified(*half)[:2] == ([], [])
    edit(database, f"update milepost.history set chain = '' where \"offset\" >= 3 and partition = {partition}")
    assert live.result("audit", "verify", "--against-log").returncode == 1


def test_wrong_usage(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, status, said in (
        (("--against-log",), 2, "expected --kafka"),
        (("--seal", __file__), 2, "together"),
        (("--since", "yesterday"), 2, "expected an id such as"),
        ((), 3, "never filled"),
    ):
        assert run(["audit", "verify", "--database", database, *arguments]) == status
        assert said in " ".join(capsys.readouterr().err.split())
