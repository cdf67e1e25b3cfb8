"""A consumer as people write it: json.loads, executemany with ON CONFLICT, a window function to prune, stock tables.

python naive.py KAFKA TOPIC DATABASE: fills the table `naive` until it is ended.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Final

import psycopg
from confluent_kafka import Consumer

_TABLE: Final = """
create table if not exists naive (
    session_id text, checkpoint_id text primary key, created_at timestamptz, step int, state jsonb)
"""
_INDEX: Final = "create index if not exists naive_by_session on naive (session_id, created_at)"
_INSERT: Final = "insert into naive values (%s, %s, %s, %s, %s) on conflict (checkpoint_id) do nothing"
_PRUNE: Final = """
delete from naive where checkpoint_id in (
    select checkpoint_id from (
        select checkpoint_id, row_number() over (partition by session_id order by created_at desc) as place
        from naive where session_id = any(%s)) as placed
    where place > 50)
"""


def main(servers: str, topic: str, database: str) -> None:
    """Consume for ever."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"naive-{topic}-{os.getpid()}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    with psycopg.connect(database) as connection:
        connection.execute(_TABLE)
        connection.execute(_INDEX)
        connection.commit()
        while True:
            rows = []
            for message in consumer.consume(500, 1.0):
                value = message.value()
                if message.error() is None and value is not None:
                    headers = {name: text.decode() for name, text in message.headers() or []}  # type: ignore[str-unpack, union-attr]
                    state = json.loads(value)
                    rows.append(
                        (
                            headers["ce_sessionid"],
                            headers["ce_checkpointid"],
                            headers["ce_time"],
                            int(headers["ce_step"]),
                            json.dumps(state),
                        )
                    )
            if rows:
                with connection.cursor() as cursor:
                    cursor.executemany(_INSERT, rows)
                    cursor.execute(_PRUNE, [list({row[0] for row in rows})])
                connection.commit()
                consumer.commit(asynchronous=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
