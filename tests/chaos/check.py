"""The checker: the live view, a fresh replay of the log and the model of the rules must say the same."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any, Final

import psycopg
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from milepost.consumer import compare as views
from milepost.consumer import kafka
from milepost.consumer.database import connect
from milepost.consumer.log import LogIdentity, ends, identify
from milepost.consumer.policies import default_newest, show
from milepost.consumer.progress import caught_up
from milepost.consumer.records import LogRecord, from_parts
from milepost.consumer.replay import ReplayRequest, replay
from milepost.schemas import KafkaUnavailable
from tests.chaos.process import wait_until
from tests.model import Expected, model

_AT_ONCE: Final = 1_000
_SHOWN: Final = 3


class Log:
    """A topic, read as it is: by a client of its own, past the product's readers."""

    def __init__(self, servers: str, topic: str) -> None:
        self.servers = servers
        self._admin = kafka.admin(servers)
        self.identity: Final[LogIdentity] = identify(self._admin, servers, topic)
        self._records: Final[list[LogRecord]] = []
        self._next: Final = dict.fromkeys(range(self.identity.partitions), 0)

    @property
    def read(self) -> int:
        """How many records have been read so far."""
        return len(self._records)

    def ends(self) -> dict[int, int]:
        """Where each partition ends now. Raises TimeoutError when the broker does not say so for long."""
        found: dict[int, int] = {}

        def asked() -> bool:
            try:
                found.update(ends(self._admin, self.servers, self.identity))
            except KafkaUnavailable:
                # a client that was told once that there is no broker asks nobody any more
                self._admin = kafka.admin(self.servers)
                return False
            return True

        wait_until(asked, "the ends of the log")
        return found

    def records(self) -> list[LogRecord]:
        """All records that a reader of committed ones may see, each partition's in order. Raises TimeoutError."""
        left = {partition: end for partition, end in self.ends().items() if self._next[partition] < end}
        # a new one each time: faults that it has not lived through can't have confused it
        with closing(_reader(self.servers)) as reader:
            reader.assign([TopicPartition(self.identity.topic, each, self._next[each]) for each in left])

            def read() -> bool:
                for message in reader.consume(_AT_ONCE, 0.05):
                    self._take(message, left)
                return not left

            wait_until(read, "the end of the log")
        return self._records

    def _take(self, message: Message, left: dict[int, int]) -> None:
        error, partition, offset = message.error(), message.partition(), message.offset()
        if partition is None or offset is None or partition not in left:
            return
        if error is None and offset >= self._next[partition]:
            self._records.append(_record(message, self.identity.partitions))
            self._next[partition] = offset + 1
        elif error is not None and error.code() == KafkaError._PARTITION_EOF:
            self._next[partition] = max(offset, self._next[partition])
        if self._next[partition] >= left[partition]:
            del left[partition]


def _reader(servers: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "milepost-chaos",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            # the end of a partition is told by an answer without records, which the broker keeps back for so long
            "fetch.wait.max.ms": 10,
            "reconnect.backoff.max.ms": 500,
            "log_level": 0,
        }
    )


def _record(message: Message, partitions: int) -> LogRecord:
    place: Any = (message.partition(), message.offset(), message.timestamp()[1] * 1_000)
    contents: Any = (message.key(), message.value(), message.headers())
    return from_parts(*(*place, *contents, partitions))


def wait_for_view(log: Log, database: str, limit: float, meanwhile: Callable[[], None]) -> dict[int, int]:
    """Wait until the view has the log as it is now, gives its ends, and is measured by today's policies.

    Raises TimeoutError.
    """
    until = log.ends()

    def there() -> bool:
        meanwhile()
        return caught_up(connection, until)

    with closing(connect(database, application="milepost-chaos")) as connection:
        try:
            wait_until(there, "the view to catch up", limit)
        except TimeoutError:
            stands = connection.execute("select partition, next_offset from milepost.partitions").fetchall()
            raise TimeoutError(
                f"waited {limit:g} s for the view: it stands at {dict(stands)}, the log at {until}"
            ) from None
    return until


def differences(log: Log, database: str, fresh: str, records: Iterable[LogRecord] | None = None) -> list[str]:
    """What is not as it must be, each a sentence; `fresh` is an empty database with the schema, which then holds the replay.

    `records` are those of the log, when they have been read already.
    """
    with closing(connect(database)) as connection:
        policies, newest = tuple(show(connection)), default_newest(connection)
    try:
        done = replay(
            ReplayRequest(kafka=log.servers, topic=log.identity.topic, database=fresh, policies=policies),
            stop=_Never(),  # type: ignore[arg-type]  # it is only asked
        )
    finally:
        gc.unfreeze()
        gc.enable()
    found = [] if done.complete else ["the replay did not come to its end"]
    with views.snapshot(database) as live, views.snapshot(fresh) as again:
        found += [f"replay: {each}" for each in views.compare(live, again).differences]
    expected = model(log.records() if records is None else records)
    for name, place in (("view", database), ("replay", fresh)):
        found += [f"model: {each} of the {name}" for each in unlike_model(place, expected, newest)]
    return found


class _Never:
    """Nobody says stop."""

    def __call__(self) -> bool:
        return False


def unlike_model(database: str, expected: Expected, newest: int) -> Iterator[str]:
    """What a view, under a policy of `newest`, has otherwise than the model; each a sentence."""
    with psycopg.connect(database) as connection:
        history = connection.execute(
            'select tenant_id, session_id, seq, outcome::text, partition, "offset" from milepost.history'
        ).fetchall()
        live = connection.execute(
            "select tenant_id, session_id, seq, checkpoint_id, state::text from milepost.checkpoints"
        ).fetchall()
        quarantine = connection.execute(
            "select partition, \"offset\", reason from milepost.quarantine where status <> 'retried'"
        ).fetchall()
    surviving = expected.live(lambda _tenant, _session: newest)
    yield from _unequal(
        "history",
        history,
        [
            (*key, entry.seq, entry.outcome, entry.record.partition, entry.record.offset)
            for key, entries in expected.history.items()
            for entry in entries
        ],
    )
    yield from _unequal(
        "checkpoints",
        live,
        [
            (*key, entry.seq, entry.event.checkpoint_id, (entry.event.state or b"").decode())
            for key, entries in surviving.items()
            for entry in entries
        ],
    )
    yield from _unequal("quarantine", quarantine, expected.quarantine)


def _unequal(table: str, found: Sequence[tuple[object, ...]], expected: Sequence[tuple[object, ...]]) -> Iterator[str]:
    """The first rows that only one side has, or has more often."""
    lacking, extra = set(expected) - set(found), set(found) - set(expected)
    yield from (f"{row} is missing in {table}" for row in sorted(lacking, key=repr)[:_SHOWN])
    yield from (f"{row} is too much in {table}" for row in sorted(extra, key=repr)[:_SHOWN])
    if not lacking and not extra and len(found) != len(expected):
        yield f"expected {len(expected)} rows, found {len(found)} in {table}"
