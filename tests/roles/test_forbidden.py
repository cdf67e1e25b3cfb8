"""Each forbidden statement, tried by each role that must not do it."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import errors, sql

from tests.roles.conftest import Logins

TENANT_TABLES = ("sessions", "checkpoints", "history", "retention_policies")
TABLES = (
    *TENANT_TABLES,
    "partitions",
    "publishers",
    "quarantine",
    "operator_acts",
    "retention_version",
    "view",
    "migrations",
)

APPEND_ONLY = [
    "update milepost.history set seq = 9",
    "update milepost.history set sha256 = null where tenant_id = 'acme'",
    "delete from milepost.history",
    "truncate milepost.history",
    "truncate milepost.history cascade",
    "update milepost.operator_acts set what = 'nothing'",
    "delete from milepost.operator_acts",
    "truncate milepost.operator_acts",
]
DEFINITIONS = [
    "drop trigger history_is_append_only on milepost.history",
    "alter table milepost.history disable trigger all",
    "alter table milepost.operator_acts disable trigger operator_acts_are_append_only",
    "alter table milepost.history no force row level security",
    "alter table milepost.history disable row level security",
    "drop policy writer_adds on milepost.history",
    "create policy mine on milepost.history using (true)",
    "create rule mine as on insert to milepost.history do instead nothing",
    "create or replace function milepost.refuse_change() returns trigger language plpgsql as 'begin return null; end'",
    "drop table milepost.history",
    "drop schema milepost cascade",
    "alter table milepost.history owner to current_user",
    "set session_replication_role = replica",
]
WRITER = [
    *APPEND_ONLY,
    *DEFINITIONS,
    "delete from milepost.partitions",
    "truncate milepost.partitions",
    "truncate milepost.checkpoints",
    "truncate milepost.sessions",
    "update milepost.quarantine set value = 'x'",
    "update milepost.quarantine set key = null, headers = '[]'",
    "update milepost.quarantine set log_time = now()",
    'update milepost.quarantine set "offset" = 7',
    "delete from milepost.quarantine",
    "insert into milepost.operator_acts (what, details, login) values ('x', '{}', 'somebody')",
    "insert into milepost.operator_acts (what, details, at) values ('x', '{}', 'epoch')",
    "insert into milepost.operator_acts (what, details, operator) values ('x', '{}', 'somebody')",
    "insert into milepost.retention_policies (tenant_id, newest) values ('acme', 1)",
    "update milepost.retention_policies set newest = 1",
    "delete from milepost.retention_policies",
    "update milepost.retention_version set version = 0",
    "update milepost.view set view_id = gen_random_uuid()",
    "insert into milepost.migrations (number, name, sha256) values (9, 'x', '')",
    "delete from milepost.migrations",
    "select milepost.refuse_change()",
    "select milepost.policy_act()",
    "select milepost.quarantine_act()",
    "select milepost.refuse_forged_act()",
    "insert into milepost.operator_acts (what, details) values ('retention set', '{}')",
    "insert into milepost.operator_acts (what, details) values ('Retention remove', '{}')",
    "insert into milepost.operator_acts (what, details) values ('quarantine dismiss', '{}')",
]
READER = [
    *APPEND_ONLY,
    *DEFINITIONS,
    "insert into milepost.history (tenant_id) values ('acme')",
    "insert into milepost.operator_acts (what, details) values ('x', '{}')",
    "insert into milepost.checkpoints (tenant_id) values ('acme')",
    "update milepost.sessions set last_seq = 9",
    "update milepost.checkpoints set state = '1'",
    "update milepost.partitions set next_offset = 0",
    "delete from milepost.sessions",
    "delete from milepost.checkpoints",
    "truncate milepost.checkpoints",
    "update milepost.retention_policies set newest = 1",
    "set role milepost_writer",
    "set role postgres",
    "set session authorization postgres",
    "lock table milepost.history in exclusive mode",
    "copy milepost.checkpoints from stdin",
    "copy milepost.history to program 'cat'",
    "select milepost.refuse_change()",
    "select milepost.retention_changed()",
    *[f"select * from milepost.{name}" for name in TABLES if name not in (*TENANT_TABLES, "partitions")],
]
NOBODY = [
    *[f"select * from milepost.{name}" for name in TABLES],
    "select milepost.at(0)",
    "select milepost.microseconds(now())",
    "insert into milepost.operator_acts (what, details) values ('x', '{}')",
    "delete from milepost.history",
    "create table milepost.mine (id int)",
]
REFUSALS = (errors.InsufficientPrivilege, errors.FeatureNotSupported)


def refused(database: str, statements: list[str], *, role: str | None = None) -> None:
    """Each statement must end in a refusal, tried in a transaction of its own."""
    with psycopg.connect(database) as connection:
        for statement in statements:
            if role is not None:
                connection.execute(sql.SQL("set local role {}").format(sql.Identifier(role)))
            with pytest.raises(REFUSALS):
                connection.execute(statement.encode())
                pytest.fail(f"not refused: {statement}")
            connection.rollback()


def test_the_writer(logins: Logins) -> None:
    refused(logins.writer, WRITER)
    refused(
        logins.superuser, [each for each in WRITER if "session_replication_role" not in each], role="milepost_writer"
    )


def test_the_reader(logins: Logins) -> None:
    refused(logins.reader, READER)


def test_nobody(logins: Logins) -> None:
    refused(logins.nobody, NOBODY)


def test_the_owner_and_the_superuser_meet_the_triggers(logins: Logins) -> None:
    for database in (logins.owner, logins.superuser):
        for statement in APPEND_ONLY:
            with psycopg.connect(database) as connection, pytest.raises(errors.RestrictViolation):
                connection.execute(statement.encode())


def test_the_owner_without_triggers_meets_the_policies(logins: Logins) -> None:
    with psycopg.connect(logins.owner) as connection:
        connection.execute("alter table milepost.history disable trigger history_is_append_only")
        assert connection.execute("update milepost.history set source = 'x'").rowcount == 0
        assert connection.execute("delete from milepost.history").rowcount == 0
        assert connection.execute("select count(*) from milepost.history").fetchone() == (4,)
        connection.rollback()


@pytest.mark.parametrize("table", TENANT_TABLES)
def test_a_reader_sees_its_own_tenant_alone(logins: Logins, table: str) -> None:
    query = sql.SQL("select distinct tenant_id from milepost.{} where tenant_id is not null").format(
        sql.Identifier(table)
    )
    with psycopg.connect(logins.reader, autocommit=True) as connection:
        assert connection.execute(query).fetchall() == []
        for tenant in ("acme", "other"):
            connection.execute("select set_config('milepost.tenant_id', %s, false)", [tenant])
            expected = [] if (table, tenant) == ("retention_policies", "acme") else [(tenant,)]
            assert connection.execute(query).fetchall() == expected
        connection.execute("set milepost.tenant_id = ''")
        assert connection.execute(query).fetchall() == []


def test_a_reader_s_own_functions_and_views_see_no_more(logins: Logins) -> None:
    with psycopg.connect(logins.reader, autocommit=True) as connection:
        connection.execute("set milepost.tenant_id = 'acme'")
        # an operator that is asked before the policy would see the other tenant's rows
        connection.execute(
            "create function pg_temp.leak(text) returns boolean language plpgsql cost 0.0000001 as "
            "$$ begin raise notice '%', $1; return true; end $$"
        )
        seen: list[str] = []
        connection.add_notice_handler(lambda notice: seen.append(str(notice.message_primary)))
        connection.execute("select from milepost.checkpoints where pg_temp.leak(tenant_id || state::text)")
        connection.execute("select from milepost.history where pg_temp.leak(tenant_id)")
        assert seen
        assert [text for text in seen if "other" in text] == []
        statistics = "select count(*) from pg_stats where schemaname = 'milepost' and tablename = 'checkpoints'"
        assert connection.execute(statistics).fetchone() == (0,)


def test_security_is_forced_on_every_table_that_names_a_tenant(logins: Logins) -> None:
    query = """
        select c.relname, c.relrowsecurity and c.relforcerowsecurity
        from pg_class c join pg_attribute a on a.attrelid = c.oid
        where c.relnamespace = 'milepost'::regnamespace and c.relkind = 'r' and a.attname = 'tenant_id'"""
    with psycopg.connect(logins.superuser) as connection:
        assert sorted(connection.execute(query).fetchall()) == sorted((name, True) for name in TENANT_TABLES)


def test_public_has_nothing(logins: Logins) -> None:
    """Whatever is granted in the schema is granted to a role by name, but for three functions that know nothing."""
    query = """
        select c.relname from pg_class c, aclexplode(c.relacl) a
        where c.relnamespace = 'milepost'::regnamespace and a.grantee = 0
        union all
        select p.proname from pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
        where p.pronamespace = 'milepost'::regnamespace and a.grantee = 0
        union all
        select n.nspname from pg_namespace n, aclexplode(n.nspacl) a where n.nspname = 'milepost' and a.grantee = 0"""
    with psycopg.connect(logins.superuser) as connection:
        assert sorted(connection.execute(query).fetchall()) == [("at",), ("id_hash",), ("microseconds",)]
