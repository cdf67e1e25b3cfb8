"""Migrations: they end where the schema files do, they are safe to repeat, and an applied one cannot change."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from importlib.resources import files
from pathlib import Path

import msgspec
import psycopg
import pytest

from milepost.consumer import migrate
from milepost.consumer.database import connect
from milepost.schemas import WrongView

SCHEMA = Path(str(files("milepost.consumer").joinpath("sql", "schema")))

CATALOG = {
    "columns": """
        select table_name, ordinal_position, column_name, data_type, collation_name, is_nullable, column_default
        from information_schema.columns where table_schema = 'milepost' and table_name <> 'migrations'""",
    "indexes": "select tablename, indexdef from pg_indexes where schemaname = 'milepost' and tablename <> 'migrations'",
    "constraints": """
        select conrelid::regclass::text, conname, pg_get_constraintdef(oid) from pg_constraint
        where connamespace = 'milepost'::regnamespace and conrelid <> 'milepost.migrations'::regclass""",
    "functions": """
        select oid::regprocedure::text, pg_get_functiondef(oid), proacl::text from pg_proc
        where pronamespace = 'milepost'::regnamespace""",
    "triggers": """
        select tgrelid::regclass::text, pg_get_triggerdef(oid) from pg_trigger
        where not tgisinternal and tgrelid::regclass::text like 'milepost.%'""",
    "policies": "select tablename, policyname, roles::text, cmd, qual, with_check from pg_policies where schemaname = 'milepost'",
    "tables": """
        select relname, relkind::text, relacl::text, reloptions::text, relrowsecurity, relforcerowsecurity,
               obj_description(oid, 'pg_class')
        from pg_class where relnamespace = 'milepost'::regnamespace and relname !~ '^migrations'""",
    "storage": """
        select attrelid::regclass::text, attname, attstorage::text, attcompression::text, attacl::text,
               col_description(attrelid, attnum)
        from pg_attribute join pg_class on attrelid = pg_class.oid
        where relnamespace = 'milepost'::regnamespace and attnum > 0 and relname !~ '^migrations'""",
    "types": """
        select typname, array(select enumlabel from pg_enum where enumtypid = pg_type.oid order by enumsortorder)
        from pg_type where typnamespace = 'milepost'::regnamespace and typtype = 'e'""",
}


def catalog(connection: psycopg.Connection) -> dict[str, list[tuple[object, ...]]]:
    return {what: sorted(connection.execute(query).fetchall(), key=repr) for what, query in CATALOG.items()}


def test_all_migrations_end_where_the_schema_files_do(database: str, empty_database: str) -> None:
    with psycopg.connect(empty_database) as connection:
        connection.execute(files("milepost.consumer").joinpath("sql", "ledger.sql").read_bytes())
        for path in sorted(SCHEMA.glob("*.sql")):
            connection.execute(path.read_bytes())
        expected = catalog(connection)
    with psycopg.connect(database) as connection:
        assert catalog(connection) == expected


def test_migrations_are_numbered_without_gaps_and_named() -> None:
    found = migrate.available()
    assert [migration.number for migration in found] == list(range(1, len(found) + 1))
    assert len({migration.name for migration in found}) == len(found)


def test_they_are_safe_to_repeat(database: str) -> None:
    with closing(connect(database)) as connection:
        assert migrate.apply(connection) == []
        migrate.require_current(connection)


def test_four_at_once_apply_each_once(empty_database: str) -> None:
    def one(_: int) -> int:
        with closing(connect(empty_database)) as connection:
            return len(migrate.apply(connection))

    with ThreadPoolExecutor(4) as pool:
        applied = list(pool.map(one, range(4)))
    assert sorted(applied) == [0, 0, 0, len(migrate.available())]


def test_a_changed_old_migration_is_refused(database: str) -> None:
    first, *rest = migrate.available()
    changed = msgspec.structs.replace(first, sql=first.sql + "\n-- a small correction\n")
    with closing(connect(database)) as connection, pytest.raises(WrongView, match="0001_initial was applied with"):
        migrate.apply(connection, [changed, *rest])


def test_a_newer_database_is_refused(database: str) -> None:
    with closing(connect(database)) as connection:
        connection.execute("insert into milepost.migrations values (9999, 'from_tomorrow', '\\x00')")
        with pytest.raises(WrongView, match=r"9999_from_tomorrow.*upgrade milepost"):
            migrate.apply(connection)
        with pytest.raises(WrongView, match=r"9999_from_tomorrow.*upgrade milepost"):
            migrate.require_current(connection)


def test_a_failing_migration_leaves_nothing(empty_database: str) -> None:
    broken = migrate.Migration(2, "broken", "create table milepost.half (id int); select 1 / 0;")
    with closing(connect(empty_database)) as connection:
        with pytest.raises(psycopg.errors.DivisionByZero):
            migrate.apply(connection, [*migrate.available(), broken])
        assert connection.execute("select to_regnamespace('milepost')").fetchone() == (None,)


def test_a_database_without_the_schema_is_refused(empty_database: str) -> None:
    with closing(connect(empty_database)) as connection, pytest.raises(WrongView, match="run: milepost setup"):
        migrate.require_current(connection)
