"""What must work works for both kinds of login: the plain owner of the tables, and a plain member of milepost_writer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import NamedTuple
from uuid import uuid4

import psycopg
import pytest
from psycopg import conninfo, sql

from milepost.consumer import CheckpointStore, materializer, stopped
from milepost.consumer.audit import VerifyRequest, verify
from milepost.consumer.compare import compare, digest, snapshot
from milepost.consumer.database import connect
from milepost.consumer.materializer import Materializer, become_writer
from milepost.consumer.migrate import require_current
from milepost.consumer.quarantine import dismiss
from milepost.consumer.records import LogRecord
from milepost.consumer.retry import Retried, Retry
from milepost.schemas import DEFAULT_TOPIC, CheckpointCreated, DatabaseUnavailable, SessionDeleted
from tests.fixtures.stopping import hold, stop_in_copy
from tests.fixtures.view import PARTITIONS, FakeLog, bind_log
from tests.quarantine.helpers import quarantined, unknown_to_an_older_version
from tests.roles.conftest import hand_over

STATE = b' {"$type":0, "b":"\\u0000\\ud800", "a": 1E5} '


class Worker(NamedTuple):
    """A login at work, and the superuser beside it."""

    database: str
    superuser: str
    kind: str

    def materializer(self) -> Materializer:
        made = Materializer(self.database, DEFAULT_TOPIC)
        made.take(range(PARTITIONS))
        return made

    def run(self, statement: str) -> None:
        with psycopg.connect(self.superuser, autocommit=True) as connection:
            connection.execute(statement.encode())


@pytest.fixture(params=["owner", "writer", "writer without bypassrls"])
def worker(request: pytest.FixtureRequest, database: str) -> Iterator[Worker]:
    """A plain login with one way of writing."""
    bind_log(database)
    name = f"worker_{uuid4().hex[:12]}"
    login = sql.Identifier(name)
    # others use the writer's role at the same time, so that a member without its attribute is one that cannot take it on
    option = sql.SQL(" with set false" if "without" in request.param else "")
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(sql.SQL("create role {} login password {}").format(login, sql.Literal(name)))
        if request.param == "owner":
            hand_over(connection, name)
        else:
            connection.execute(sql.SQL("grant milepost_writer to {}{}").format(login, option))
        yield Worker(conninfo.make_conninfo(database, user=name, password=name), database, request.param)
        hand_over(connection, "postgres")
        connection.execute(sql.SQL("drop role {}").format(login))


def happened(log: FakeLog) -> list[LogRecord]:
    """Enough for every rule: pins, prunings, repetitions, deletions."""
    for number in range(200):
        session = f"s{number % 3}"
        log.append(
            CheckpointCreated(
                tenant_id="acme" if number % 2 else "other",
                session_id=session,
                state=b"[%b,%d]" % (STATE, number) if number % 50 == 7 else STATE,
                checkpoint_id=f"c{number % 70}",
                pinned=number % 40 == 0,
                labels={"k": "v"},
                step=number,
            )
            if number % 50 != 49
            else SessionDeleted(tenant_id="acme", session_id=session)
        )
    log.append_raw(b"acme/s0", b"no event", [])
    return log.records


def test_a_view_that_it_builds_is_like_any_other(worker: Worker, other_database: str) -> None:
    log = FakeLog()
    records = happened(log)
    bind_log(other_database)
    worker.run("update milepost.retention_policies set newest = 5")
    with psycopg.connect(other_database) as connection:
        connection.execute("update milepost.retention_policies set newest = 5")
    for maker in (worker, worker._replace(database=other_database)):
        with closing(maker.materializer()) as materializer:
            for start in range(0, len(records), 60):
                materializer.apply(records[start : start + 60])
    with snapshot(worker.database) as ours, snapshot(other_database) as theirs:
        comparison = compare(ours, theirs)
        assert comparison.differences == []
        assert comparison.rows["checkpoints"] > 20
        assert digest(ours) == digest(theirs)
    report = verify(VerifyRequest(database=worker.database))
    assert (report.verified, report.first) == (True, [])


def test_a_refused_record_is_found_and_alone(worker: Worker) -> None:
    worker.run("alter table milepost.checkpoints add constraint unlucky check (step is distinct from 13)")
    log = FakeLog()
    records = [
        log.append(CheckpointCreated(tenant_id="t", session_id="s", state=b"%d" % number, step=number))
        for number in range(40)
    ]
    with closing(worker.materializer()) as materializer:
        applied = materializer.apply(records)
    assert (applied.quarantined, sum(applied.outcomes.values())) == (1, 39)
    with CheckpointStore(worker.superuser) as store:
        assert [info.step for info in store.list("t", "s")] == [number for number in range(40) if number != 13]
    with connect(worker.database) as connection:
        require_current(connection)


def test_the_reads_the_sweep_and_the_quarantine(worker: Worker) -> None:
    log = FakeLog()
    first = log.append(CheckpointCreated(tenant_id="t", session_id="other", state=b"1", checkpoint_id="x"))
    others = [
        log.append(CheckpointCreated(tenant_id="t", session_id="s", state=STATE, checkpoint_id=f"c{number}"))
        for number in range(9)
    ]
    bad = log.append_raw(b"t/s", b"no event", [])
    with closing(worker.materializer()) as materializer:
        materializer.apply([unknown_to_an_older_version(first), *others, bad])
        worker.run("insert into milepost.retention_policies (tenant_id, newest) values ('t', 2)")
        materializer.take(range(PARTITIONS))
        while materializer.is_sweeping:
            materializer.sweep()
    with closing(connect(worker.database)) as connection:
        become_writer(connection)
        assert [result.result for result in Retry(connection).run([log.position(first)])] == [Retried.APPLIED]
        assert dismiss(connection, log.position(bad), "seen")
    assert sorted(status for *_, status in quarantined(worker.superuser)) == ["dismissed", "retried"]
    with CheckpointStore(worker.database) as store:
        assert [info.checkpoint_id for info in store.list("t", "s")] == ["c7", "c8"]
        latest, retried = store.latest("t", "s"), store.get("t", "other", "x")
        assert latest is not None
        assert (latest.state, retried.state if retried else None) == (STATE, b"1")
        assert [entry.became.value for entry in store.iter_history("t", "s")] == ["pruned"] * 7 + ["live"] * 2
        assert [entry.why for entry in store.iter_history("t", "s", limit=1)] == [
            "pruned: newest 2 (policy of the tenant)"
        ]


def test_who_waits_ends_a_stopped_session_of_its_own_login(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopped, "STOPPED_SECONDS", 0.3)
    monkeypatch.setitem(materializer._WRITER_SETTINGS, "lock_timeout", "500ms")
    record = FakeLog().append(CheckpointCreated(tenant_id="acme", session_id="s", state=STATE))
    with (
        ExitStack() as undoing,
        closing(connect(worker.database)) as holder,
        closing(worker.materializer()) as consumer,
    ):
        become_writer(holder)
        hold(holder, record.partition)
        stop_in_copy(holder, undoing)
        with pytest.raises(DatabaseUnavailable, match="lock timeout"):
            consumer.apply([record])
        consumer.take(consumer.positions)
        assert consumer.apply([record]).written == 1


def test_who_may_not_end_it_says_so_and_ends_those_it_may(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A login that sees everybody's sessions, beside a superuser's."""
    monkeypatch.setattr(stopped, "STOPPED_SECONDS", 0.0)
    monkeypatch.setattr(stopped, "_LOOK_SECONDS", 0.1)
    worker.run(f"grant pg_read_all_stats to {conninfo.conninfo_to_dict(worker.database)['user']}")
    with (
        ExitStack() as undoing,
        closing(connect(worker.superuser)) as one,
        closing(connect(worker.database)) as another,
        closing(worker.materializer()),
    ):
        become_writer(another)
        for partition, holder in enumerate((one, another)):
            hold(holder, partition)
            stop_in_copy(holder, undoing)
        stopped.end_stopped(worker.database, range(PARTITIONS))
        found = {getattr(record, "event", None): record.getMessage() for record in caplog.records}
        assert f"process {one.info.backend_pid} holds partitions 0," in found["holder_not_ended"]
        assert f"process {another.info.backend_pid} held partitions 1," in found["holder_ended"]
