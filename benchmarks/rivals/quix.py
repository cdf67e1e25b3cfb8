"""quixstreams' PostgreSQLSink on the same topic, as its users set it up, or at its best.

python quix.py KAFKA TOPIC DATABASE usual|best: fills the table `quix` until it is ended. The usual way parses each value and
writes jsonb, so that the bytes are lost; at its best it takes the value as a text, into a text column, and commits every
thousand records.
"""

from __future__ import annotations

import os
import sys
from typing import Any
from urllib.parse import urlsplit

from quixstreams import Application
from quixstreams.sinks.community.postgresql import PostgreSQLSink


def main(servers: str, topic: str, database: str, way: str) -> None:
    """Consume for ever."""
    where = urlsplit(database)
    # what it writes it writes when it commits: every five seconds, unless it is told otherwise
    tuned: dict[str, Any] = {"commit_every": 1_000, "consumer_extra_config": {"fetch.queue.backoff.ms": 5}}
    app = Application(
        broker_address=servers,
        consumer_group=f"quix-{topic}-{os.getpid()}",
        auto_offset_reset="earliest",
        loglevel="ERROR",
        **(tuned if way == "best" else {}),
    )
    source = app.topic(topic, value_deserializer="json" if way == "usual" else "string")
    sink = PostgreSQLSink(
        host=where.hostname or "",
        port=where.port or 5432,
        dbname=where.path[1:],
        user=where.username or "",
        password=where.password or "",
        table_name="quix",
        primary_key_columns="checkpoint_id",
        upsert_on_primary_key=True,
    )
    frame = app.dataframe(source).filter(lambda value: value is not None)
    frame = frame.apply(_row, metadata=True)
    frame.sink(sink)
    app.run()


def _row(value: Any, _key: Any, _timestamp: int, headers: Any) -> dict[str, Any]:
    found = {name: text.decode() for name, text in headers}
    return {
        "checkpoint_id": found["ce_checkpointid"],
        "session_id": found["ce_sessionid"],
        "created_at": found["ce_time"],
        "step": int(found["ce_step"]),
        "state": value,
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
