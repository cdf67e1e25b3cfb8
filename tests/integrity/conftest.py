"""One signed view for all edits: a database for each would take longer than all the rest."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

from milepost.consumer.store import CheckpointStore
from tests.fixtures.servers import _created, with_dbname
from tests.fixtures.view import FakeLog
from tests.integrity.ground import KEY, SignedView, execute, happened, set_newest

TABLES = ("sessions", "checkpoints")


class Ground:
    """A signed view that is put back as it was before each edit."""

    def __init__(self, database: str, log: FakeLog, store: CheckpointStore) -> None:
        self.database = database
        self.log = log
        self.store = store

    def restore(self) -> None:
        """Undo all edits."""
        with psycopg.connect(self.database) as connection:
            for table in TABLES:
                put_back(connection, table)


def put_back(connection: psycopg.Connection, table: str) -> None:
    """Make a table what its copy in the schema `now` is, but for what Postgres makes of the other columns."""
    columns = sql.SQL(", ").join(
        sql.Identifier(name)
        for (name,) in connection.execute(
            "select column_name from information_schema.columns "
            "where table_schema = 'milepost' and table_name = %s and is_generated = 'NEVER'",
            [table],
        )
    )
    here, kept = sql.Identifier("milepost", table), sql.Identifier("now", table)
    connection.execute(sql.SQL("delete from {}").format(here))
    connection.execute(sql.SQL("insert into {0} ({2}) select {2} from {1}").format(here, kept, columns))


def keep(database: str, schema: str) -> None:
    """Copy what is genuine now."""
    with psycopg.connect(database) as connection:
        name = sql.Identifier(schema)
        connection.execute(sql.SQL("create schema {}").format(name))
        for table in TABLES:
            connection.execute(
                sql.SQL("create table {}.{} as table milepost.{}").format(
                    name, sql.Identifier(table), sql.Identifier(table)
                )
            )


@pytest.fixture(scope="module")
def _ground(postgres_conninfo: str, template: str) -> Iterator[Ground]:
    """The view; schema `before` holds its tables before the last records came, `now` as they are after."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    with _created(postgres_conninfo, name, template):
        database = with_dbname(postgres_conninfo, name)
        set_newest(database, 5)
        log = FakeLog()
        for event in happened():
            log.append(event)
        view = SignedView(database)
        view.apply(log.records[:5])
        keep(database, "before")
        view.apply(log.records[5:])
        keep(database, "now")
        execute(database, "analyze")
        view.close()
        with CheckpointStore(database, integrity_keys=[KEY]) as store:
            yield Ground(database, log, store)


@pytest.fixture
def ground(_ground: Ground) -> Ground:
    """The view without edits."""
    _ground.restore()
    return _ground
