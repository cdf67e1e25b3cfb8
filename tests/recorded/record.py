"""Record a log of this version, and the view of it: python -m tests.recorded.record FOLDER

FOLDER is that of an embedded stack, as for MILEPOST_TEST_STACK. A version that was recorded is never recorded again.
"""

from __future__ import annotations

import sys
import uuid
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path

from milepost.consumer import kafka
from milepost.consumer.replay import ReplayRequest, replay
from milepost.consumer.topic import target
from milepost.embedded import Stack
from milepost.schemas.partitioning import partition_of
from tests.fixtures.servers import PARTITIONS, _created, with_dbname
from tests.recorded import files
from tests.recorded.scenario import ELSEWHERE, RETAIN, START, contents
from tests.topic.reading import Found, topic_with_times


def a_log() -> list[Found]:
    """The scenario, a record each millisecond, beginning a minute after its events."""
    first = int((START + timedelta(minutes=1)).timestamp() * 1_000)
    return [
        Found(_place(key or b""), first + number, key, value, tuple(headers))
        for number, (key, value, headers) in enumerate(contents())
    ]


def _place(key: bytes) -> int:
    right = partition_of(key, PARTITIONS)
    return (right + 1) % PARTITIONS if key.endswith(ELSEWHERE.encode()) else right


def rebuild(servers: str, database: str, records: list[Found]) -> None:
    """Put the records into a fresh log, and build the view of it."""
    topic = topic_with_times(servers, PARTITIONS, records)
    target.finish(kafka.admin(servers), servers, topic)
    report = replay(ReplayRequest(kafka=servers, topic=topic, database=database, newest=RETAIN))
    assert (report.complete, report.events) == (True, len(records))


def main(folder: str) -> None:
    """Record this version."""
    name = version("milepost")
    if files.view_file(name).exists():
        sys.exit(f"expected a version that was not recorded yet, found {name}")
    records = a_log()
    stack = Stack(Path(folder))
    stack.up()
    servers, server = (stack.environment()[variable] for variable in ("MILEPOST_KAFKA", "MILEPOST_DATABASE"))
    database = f"recorded_{uuid.uuid4().hex[:12]}"
    with _created(server, database):
        there = with_dbname(server, database)
        rebuild(servers, there, records)
        first = {"version": name, "retain": RETAIN, "digest": files.digest(there)}
        files.write(files.log_file(name), map(files.to_line, records))
        files.write(files.view_file(name), [first, *files.dump(there)])


if __name__ == "__main__":
    main(*sys.argv[1:])
