"""What a replay goes on with, and what it refuses to go on with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psycopg
import pytest

from milepost.consumer.replay import ReplayRequest, replay, run
from tests.fixtures.commands import Milepost, stop, wait_until
from tests.fixtures.publishing import produce
from tests.replay.test_replay import made


@pytest.fixture
def live(milepost: Milepost, kafka_servers: str, topic: str) -> Milepost:
    """A small live view."""
    produce(kafka_servers, topic, made(200, seed=3))
    milepost.run("consume", "--until-caught-up")
    return milepost


def begun(kafka_servers: str, topic: str, database: str, **options: Any) -> None:
    """A replay that was stopped before its first record."""
    stopped: Any = lambda: True  # noqa: E731
    report = replay(ReplayRequest(kafka=kafka_servers, topic=topic, database=database, **options), stop=stopped)
    assert not report.complete


def test_a_process_that_never_answered_leaves_it_unfinished(
    live: Milepost, kafka_servers: str, topic: str, empty_database: str, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Deaf:
        """Its processes were ended before they could hear that they are to stop."""

        def __init__(self, *_: object) -> None:
            pass

        def run(self) -> list[bool]:
            return []

    request = ReplayRequest(kafka=kafka_servers, topic=topic, database=empty_database, processes=2)
    with monkeypatch.context() as patch:
        patch.setattr(run, "Pool", Deaf)
        assert not replay(request).complete
    report = replay(request)
    assert (report.complete, report.resumed, report.events) == (True, True, 200)
    live.run("compare", database, empty_database)


def test_following_goes_on_whenever_it_was_ended(
    live: Milepost, kafka_servers: str, topic: str, empty_database: str, database: str, tmp_path: Path
) -> None:
    live.run("replay", "--into", empty_database)
    produce(kafka_servers, topic, made(50, seed=4))
    onwards = Milepost({**live.environment, "MILEPOST_DATABASE": empty_database})
    with live.running("replay", "--into", empty_database, "--follow", log=tmp_path / "log") as process:
        wait_until(lambda: json.loads(onwards.run("status", "--json"))["lag"] == 0, "the log's end")
        assert stop(process) == 0
    live.run("consume", "--until-caught-up")
    live.run("compare", database, empty_database)
    done = live.result("replay", "--into", empty_database)
    assert (done.returncode, b"milepost consume" in done.stderr) == (3, True)


def test_a_verification_goes_on_to_where_the_view_has_come(
    live: Milepost, kafka_servers: str, topic: str, empty_database: str, database: str
) -> None:
    with psycopg.connect(database) as connection:
        stands: dict[int, int] = dict(
            connection.execute("select partition, next_offset from milepost.partitions").fetchall()
        )
    begun(kafka_servers, topic, empty_database, until=stands)
    produce(kafka_servers, topic, made(30, seed=5))
    live.run("consume", "--until-caught-up")
    report = json.loads(live.run("replay", "--into", empty_database, "--verify", database, "--json"))
    assert (report["resumed"], report["equal"], report["events"]) == (True, True, 230)


def test_other_policies_are_refused(live: Milepost, kafka_servers: str, topic: str, empty_database: str) -> None:
    begun(kafka_servers, topic, empty_database, newest=2)
    done = live.result("replay", "--into", empty_database, "--retain", "30")
    assert done.returncode == 3
    assert b"begun with (all/*: newest 2), found others asked for (all/*: newest 30)" in done.stderr
    report = json.loads(live.run("replay", "--into", empty_database, "--retain", "2", "--json"))
    assert (report["complete"], report["policies"]) == (True, "newest 2")


def test_policies_of_a_target_that_was_set_up_do_not_stay(live: Milepost, other_database: str, database: str) -> None:
    elsewhere = Milepost({**live.environment, "MILEPOST_DATABASE": other_database})
    elsewhere.run("retention", "set", "--newest", "1", "--tenant", "acme", "--session", "s1")
    report = json.loads(live.run("replay", "--into", other_database, "--policies-from", database, "--json"))
    assert report["policies"] == "1 taken over"
    assert report["states_skipped"] == report["applied"] - report["states_written"] - deletions(database)
    live.run("compare", database, other_database)
    with psycopg.connect(other_database) as connection:
        version = connection.execute("select retention_version from milepost.partitions").fetchall()
        assert set(version) == {connection.execute("select version from milepost.retention_version").fetchone()}


def deletions(database: str) -> int:
    with psycopg.connect(database) as connection:
        row = connection.execute(
            "select count(*) from milepost.history where kind = 'session-deleted' and outcome = 'applied'"
        ).fetchone()
    assert row is not None
    return int(row[0])


def test_a_verification_needs_no_database_of_its_own(live: Milepost, database: str) -> None:
    report = json.loads(live.run("replay", "--verify", database, "--json"))
    assert (report["complete"], report["equal"]) == (True, True)
    assert len(report["log_digest"]) == 64
    with psycopg.connect(database) as connection:
        left = connection.execute("select datname from pg_database where datname like 'milepost_verify_%'").fetchall()
    assert left == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], b"expected --into and a database"),
        (["--into", ""], b"expected --into and a database"),
        (["--into", "dbname=x", "--tenant", ""], b"--tenant: expected 1 to 128 characters"),
        (["--into", "dbname=x", "--tenant", "b@d"], b"--tenant: expected 1 to 128 characters"),
        (["--into", "dbname=x", "--tenant", "t", "--session", "/x"], b"--session: expected no / at the start"),
    ],
)
def test_usage(milepost: Milepost, options: list[str], said: bytes) -> None:
    done = milepost.result("replay", *options)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


def test_before_all_time_the_log_was_empty(live: Milepost, empty_database: str) -> None:
    report = json.loads(live.run("replay", "--into", empty_database, "--until", "1900-01-01T00:00:00Z", "--json"))
    assert (report["complete"], report["events"]) == (True, 0)


def test_a_third_view_is_refused_without_its_password(milepost: Milepost) -> None:
    done = milepost.result("compare", "dbname=a", "dbname=b", "postgresql://u:secret@h/c")
    assert (done.returncode, b"found 3" in done.stderr, b"secret" in done.stderr) == (2, True, False)
