"""How far the view is behind the log."""

from __future__ import annotations

from collections.abc import Mapping

import psycopg

from milepost.consumer.database import Connection, translate


def caught_up(connection: Connection, until: Mapping[int, int]) -> bool:
    """Whether the view, by whatever process, has all records below these offsets and is measured by today's policies."""
    try:
        rows = connection.execute(
            "select partition, next_offset, retention_version = (select version from milepost.retention_version) "
            "from milepost.partitions"
        ).fetchall()
    except psycopg.Error as error:
        connection.close()
        raise translate(error, connection.info.dsn) from error
    stands = {partition: offset for partition, offset, _ in rows}
    return all(measured for *_, measured in rows) and all(
        stands.get(partition, 0) >= offset for partition, offset in until.items()
    )
