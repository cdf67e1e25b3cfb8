"""What operators do is recorded with who, when and from where, by milepost or by hand, and stays."""

from __future__ import annotations

import getpass
import json
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime

import psycopg
import pytest

from milepost.consumer import migrate
from milepost.consumer.audit.acts import Act, acts
from milepost.consumer.database import connect
from milepost.consumer.policies import PolicyRow, set_default, set_policy
from milepost.consumer.quarantine import dismiss
from milepost.consumer.retry import Retry
from tests.fixtures.commands import Milepost
from tests.fixtures.view import FakeLog, PostgresView
from tests.quarantine.helpers import created, unknown_to_an_older_version


@pytest.fixture
def log() -> FakeLog:
    return FakeLog()


@pytest.fixture
def view(database: str, log: FakeLog) -> Iterator[PostgresView]:
    """A view with two records in the quarantine: one that is valid by now, one that never is."""
    view = PostgresView(database)
    view.apply([unknown_to_an_older_version(log.append(created(1))), log.append_raw(b"t/s", b"no event", [])])
    yield view
    view.close()


def told(database: str, since: datetime | None = None) -> list[Act]:
    """The acts after the setup of the template."""
    with closing(connect(database)) as connection:
        return [act for act in acts(connection, since) if act.what != "setup"]


def test_the_quarantine(database: str, log: FakeLog, view: PostgresView) -> None:
    good, bad = (log.position(record) for record in log.records)
    with closing(connect(database, application="milepost-quarantine")) as connection:
        list(Retry(connection).run([good, bad]))
        assert dismiss(connection, bad, "seen")
        assert not dismiss(connection, bad, "again")
        connection.execute("update milepost.quarantine set status = 'open', note = null where status = 'dismissed'")
        connection.execute("update milepost.quarantine set note = 'by hand' where status = 'open'")
        connection.execute("delete from milepost.quarantine where status = 'open'")
    found = told(database)
    assert [(act.what, act.details["offset"], act.details["status"]) for act in found] == [
        ("quarantine retry", good.offset, "retried"),
        ("quarantine retry", bad.offset, "open"),
        ("quarantine dismiss", bad.offset, "dismissed"),
        ("quarantine reopen", bad.offset, "open"),
        ("quarantine change", bad.offset, "open"),
        ("quarantine remove", bad.offset, "open"),
    ]
    assert [act.details["note"] for act in found][2:5] == ["seen", None, "by hand"]
    assert [(act.operator or "").partition("@")[0] for act in found] == [getpass.getuser()] * 3 + [""] * 3
    assert {(act.login, act.acting_as, act.application, act.client_address) for act in found} == {
        ("postgres", "postgres", "milepost-quarantine", "127.0.0.1")
    }


def test_policies(database: str) -> None:
    before = datetime.now(UTC)
    with closing(connect(database)) as connection:
        set_policy(connection, PolicyRow("acme", None, 3, 60.0, None))
        set_policy(connection, PolicyRow("acme", None, 4, None, None))
        set_default(connection, 50)
        connection.execute("set role milepost_reader; reset role")
        connection.execute("delete from milepost.retention_policies where tenant_id = 'acme'")
        version = connection.execute("select version from milepost.retention_version").fetchone()
        connection.execute("truncate milepost.retention_policies")
        assert connection.execute("select version from milepost.retention_version").fetchone() == (version[0] + 1,)  # type: ignore[index]
    found = told(database)
    assert [act.what for act in found] == ["retention set", "retention set", "retention remove", "retention remove"]
    assert [(act.details.get("tenant_id"), act.details.get("newest")) for act in found] == [
        ("acme", 3),
        ("acme", 4),
        ("acme", 4),
        (None, None),
    ]
    assert found[0].details["max_age_seconds"] == 60
    assert found[1].details["before"]["newest"] == 3
    assert before <= found[0].at <= found[-1].at <= datetime.now(UTC)
    assert told(database, found[2].at) == found[2:]
    assert told(database, datetime.now(UTC)) == []


def test_an_act_that_is_undone_was_none(database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("update milepost.retention_policies set newest = 1")
        connection.rollback()
    assert told(database) == []


def test_the_role_that_was_taken_on(database: str, log: FakeLog, view: PostgresView) -> None:
    with psycopg.connect(database, application_name="by hand") as connection:
        connection.execute("set role milepost_writer")
        connection.execute(
            "update milepost.quarantine set status = 'dismissed', note = 'x' where partition = 1 or true"
        )
        connection.execute("insert into milepost.operator_acts (what, details) values ('something', '{}')")
    assert {(act.login, act.acting_as, act.operator, act.application) for act in told(database)} == {
        ("postgres", "milepost_writer", None, "by hand")
    }


def test_setup(empty_database: str) -> None:
    with closing(connect(empty_database)) as connection:
        migrate.apply(connection)
        migrate.apply(connection)
        found = list(acts(connection))
    assert [(act.what, act.details) for act in found] == [("setup", {"migrations": ["0001_initial"]})]


def test_the_command(milepost: Milepost) -> None:
    milepost.run("retention", "set", "--newest", "9", "--tenant", "acme")
    found = json.loads(milepost.run("audit", "acts", "--json"))
    assert [(act["what"], act["details"].get("tenant_id")) for act in found] == [
        ("setup", None),
        ("retention set", "acme"),
    ]
    assert b"retention set" in milepost.run("audit", "acts", "--since", found[1]["at"])
    milepost.run("audit", "acts", "--since", "yesterday", expect=2)
