"""What several of the embedded stack's tests need."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import psutil
import psycopg
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from milepost.embedded import StackStatus

_TOPIC = "kept"


def wait_until(condition: Callable[[], object], limit: float) -> None:
    """Returns when `condition` holds; raises RetryError after `limit` seconds."""
    Retrying(stop=stop_after_delay(limit), wait=wait_fixed(0.02), retry=retry_if_result(lambda held: not held))(
        condition
    )


def write_both(status: StackStatus, text: str) -> None:
    """Puts `text` into a topic and a table, made if need be."""
    write_kafka(status.kafka_address, text)
    write_postgres(status.database, text)


def read_both(status: StackStatus) -> tuple[list[str], list[str]]:
    """All that was put into the topic and the table."""
    return read_kafka(status.kafka_address), read_postgres(status.database)


def write_kafka(address: str, text: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    if _TOPIC not in admin.list_topics(timeout=10).topics:
        admin.create_topics([NewTopic(_TOPIC, 1, 1)])[_TOPIC].result(20)
    producer = Producer({"bootstrap.servers": address, "acks": "all"})
    producer.produce(_TOPIC, text.encode())
    assert producer.flush(20) == 0


def read_kafka(address: str) -> list[str]:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "reader"})
    start = TopicPartition(_TOPIC, 0, 0)
    consumer.assign([start])
    _, end = consumer.get_watermark_offsets(start, timeout=10)
    found = consumer.consume(end, timeout=20)
    consumer.close()
    return [value.decode() for message in found if isinstance(value := message.value(), bytes)]


def write_postgres(database: str, text: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("create table if not exists kept (n serial, text text)")
        connection.execute("insert into kept (text) values (%s)", [text])


def read_postgres(database: str) -> list[str]:
    with psycopg.connect(database) as connection:
        return [row[0] for row in connection.execute("select text from kept order by n")]


def sockets_of(pid: int | None) -> list[Any]:
    """The internet sockets of a process and all its descendants, which come and go."""
    assert pid is not None
    process = psutil.Process(pid)
    found = list(process.net_connections("inet"))
    for child in process.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            found += child.net_connections("inet")
    return found


def does(process: psutil.Process, what: str) -> bool:
    """Whether a process, which may have ended, says in its command line that it does this."""
    try:
        return what in " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return False


def processes_of(folder: Path) -> list[psutil.Process]:
    """Every live process that names the folder in its command line or works inside it."""
    found = []
    for process in psutil.process_iter(["cmdline", "cwd", "status"]):
        places = [*(process.info["cmdline"] or []), process.info["cwd"] or ""]
        if process.info["status"] != psutil.STATUS_ZOMBIE and any(str(folder) in place for place in places):
            found.append(process)
    return found


def python(code: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """A Python of its own, both outputs captured together."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
