"""The right log: the view's own against the one that answers."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import Final

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, TopicDescription  # type: ignore[attr-defined]

from milepost.consumer import kafka, queries
from milepost.consumer.database import Connection
from milepost.consumer.log import LogIdentity, beginnings, ends, identify, identity_of
from milepost.consumer.log_errors import REBUILD, gone
from milepost.schemas import KafkaUnavailable, WrongLog, WrongView

_EVERY_SECONDS: Final = 5.0
_ANSWER_SECONDS: Final = 5.0
_FASTEST: Final = 1_000_000.0
"""Records a second that no partition takes."""


def bind(connection: Connection, log: LogIdentity) -> None:
    """Make the view one of this log, or check that it is already. Raises `WrongLog` when it is a view of another one."""
    statements = queries.load("materialize")
    bound = bound_log(connection)
    if bound is None:
        with connection.transaction():
            connection.execute(statements["bind_log"], [log.cluster_id, log.topic, log.topic_id, log.partitions])
        bound = bound_log(connection)
    if bound is not None:
        compare(bound, log)


def bound_log(connection: Connection) -> LogIdentity | None:
    """The log that the view was built from; None when it was built from none yet."""
    row = connection.execute(queries.load("materialize")["bound_log"]).fetchone()
    if row is None or not row[3]:
        return None
    return LogIdentity(row[0], row[1], row[2], row[3])


def compare(bound: LogIdentity, found: LogIdentity) -> None:
    """Raise `WrongLog` when the log found is not the one that the view was built from, saying what differs."""
    if bound == found:
        return
    if bound.cluster_id != found.cluster_id:
        what, remedy = "another cluster", f"point --kafka at the right one, or {REBUILD}"
    elif bound.topic != found.topic:
        what, remedy = "another topic", f"point --topic at {bound.topic}, or {REBUILD}"
    elif bound.topic_id != found.topic_id:
        what, remedy = "a topic that was created again under the old name", REBUILD
    else:
        what = "another number of partitions, so that a session's next event may lie elsewhere than its last"
        remedy = "copy the log to a new topic of that many partitions with: milepost topic migrate"
    raise WrongLog(f"the view was built from {bound}, found {found}: {what}; {remedy}")


def check_positions(client: AdminClient, servers: str, log: LogIdentity, positions: Mapping[int, int]) -> None:
    """Raise `WrongLog` when a position lies before the log's beginning or beyond its end."""
    first, last = beginnings(client, servers, log), ends(client, servers, log)
    for partition, offset in sorted(positions.items()):
        if offset < first[partition]:
            raise WrongLog(
                f"partition {partition} of {log.topic} begins at offset {first[partition]}, the view stands at {offset}: "
                f"{first[partition] - offset} records were removed before they were read; set retention.ms and "
                "retention.bytes of the topic to -1, and rebuild the view from a complete copy of the log, or without them: "
                "milepost replay --into DATABASE --accept-missing"
            )
        if offset > last[partition]:
            raise WrongLog(
                f"partition {partition} of {log.topic} ends at offset {last[partition]}, the view stands at {offset}: "
                f"the log was truncated or is another one; {REBUILD}"
            )


class LogWatch:
    """Asks every few seconds, without waiting for the answer, whether the topic is still the same."""

    def __init__(self, client: AdminClient, log: LogIdentity) -> None:
        self._client = client
        self._log = log
        self._asked: Future[TopicDescription] | None = None
        self._asked_at = self._same_at = time.monotonic()
        """When the question was put that is open, and the one that was answered well."""
        self._is_in_doubt = False
        self.trouble: str | None = None
        """Why Kafka did not answer when it was asked last."""

    def tick(self) -> None:
        """Raise `WrongLog` when the last answer says that the topic is another one or gone."""
        if self._asked is None:
            if time.monotonic() >= self._asked_at + _EVERY_SECONDS:
                self._ask()
        elif self._asked.done():
            self._hear(0)

    def doubt(self, positions: Iterable[int]) -> None:
        """Ask whether what was read at these offsets is of our log, not of one that was created again under its name.

        A new log would have to have as many records first: so soon after the last good answer it cannot, and nobody is asked.
        """
        self._is_in_doubt = time.monotonic() - self._same_at >= min(positions) / _FASTEST
        if self._is_in_doubt:
            self._ask()

    def settle(self) -> None:
        """Wait for the answer, when there was a doubt: an id that is still the same was so when the records were read.

        Raises `WrongLog`, and `KafkaUnavailable` when there is no answer.
        """
        if not self._is_in_doubt:
            return
        self._hear(_ANSWER_SECONDS)
        if self.trouble is not None:
            raise KafkaUnavailable(
                f"Kafka did not say whether {self._log.topic} is still the same topic: {self.trouble}"
            )
        self._is_in_doubt = False

    def _ask(self) -> None:
        self._asked_at = time.monotonic()
        (self._asked,) = self._client.describe_topics(
            TopicCollection([self._log.topic]), request_timeout=_ANSWER_SECONDS
        ).values()

    def _hear(self, seconds: float) -> None:
        asked, self._asked = self._asked, None
        if asked is None:
            return
        try:
            found = identity_of(self._log.cluster_id, self._log.topic, asked.result(seconds))
        except KafkaException as error:
            if kafka.is_unknown_topic(error):
                raise gone(self._log.topic, f"the view was built from {self._log}") from None
            self.trouble = kafka.reason(error)
            return
        except TimeoutError:
            self.trouble = f"no answer within {seconds:g} s"
            return
        self.trouble = None
        compare(self._log, found)
        self._same_at = self._asked_at


def require(client: AdminClient, servers: str, connection: Connection, topic: str) -> LogIdentity:
    """The log behind the topic, checked to be the view's. Raises `WrongLog`, `KafkaUnavailable`."""
    log = identify(client, servers, topic)
    bind(connection, log)
    return log


def require_bound(client: AdminClient, servers: str, connection: Connection, topic: str) -> LogIdentity:
    """The log behind the topic, which the view must be one of already.

    Raises `WrongView` when the view belongs to no log yet, `WrongLog` when it is a view of another one.
    """
    bound = bound_log(connection)
    if bound is None:
        raise WrongView("expected a view of a log, found one that was never filled; run: milepost setup")
    found = identify(client, servers, topic)
    compare(bound, found)
    return found
