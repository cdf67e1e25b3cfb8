"""Every error milepost raises, in one tree.

MilepostError
├── InvalidEvent         an event breaks the rules; nothing was sent
├── InvalidRecord        a record of the log is no valid event; the consumer quarantines it
├── InvalidSetting       a setting is unknown, malformed, or would break a promise
├── DeliveryFailed       an event did not reach the log
├── PublisherClosed      publish after close
├── CorruptState         a stored state does not have the digest it was published with
├── Tampered             a row of the view was changed by somebody who lacks the integrity key
├── Unavailable          could not do it now
│   ├── KafkaUnavailable the log does not answer
│   └── DatabaseUnavailable  the view does not answer
├── WrongView            the database is no milepost view, or one of another version
├── WrongLog             the log is not the one this view was built from
└── Fenced               another consumer owns the partition

Recoverable or not is a type, not a flag: what is an `Unavailable` may be tried again as it is, nothing else may.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from milepost.schemas.reasons import Reason


class MilepostError(Exception):
    """Base of all errors of milepost. The message says what was expected, what was found, and where."""


class InvalidEvent(MilepostError):
    """An event breaks the rules of the wire. Nothing was sent.

    `field` names the attribute at fault, as the event's class does.
    """

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(field, problem)
        self.field = field
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.field}: {self.problem}"


class InvalidRecord(MilepostError):
    """A record of the log is no valid event.

    `reason` is the documented code that stands in the quarantine, `detail` the sentence beside it.
    """

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}"


class InvalidSetting(MilepostError, ValueError):
    """A setting is unknown, malformed, or would break a promise; the message names it."""


class DeliveryFailed(MilepostError):
    """An event did not reach the log.

    `reason` is `queue_full`, `closed`, or the name librdkafka gives the error (`_MSG_TIMED_OUT`, …).
    """

    def __init__(self, event_id: UUID, reason: str, detail: str) -> None:
        super().__init__(event_id, reason, detail)
        self.event_id = event_id
        self.reason = reason
        self.detail = detail

    def __str__(self) -> str:
        return f"event {self.event_id} was not delivered ({self.reason}): {self.detail}"


class PublisherClosed(MilepostError):
    """The publisher was closed; it takes no more events."""


class CorruptState(MilepostError):
    """The state read from the view does not have the SHA-256 it was published with."""


class Tampered(MilepostError):
    """A row of the view does not fit its MAC or its session's head: somebody without the integrity key changed it.

    `table` and `key` name the row, `field` its column (`mac` where none can be named, `row` for one that is missing).
    """

    def __init__(self, table: str, key: Mapping[str, str], field: str, problem: str) -> None:
        super().__init__(table, dict(key), field, problem)
        self.table = table
        self.key = dict(key)
        self.field = field
        self.problem = problem

    def __str__(self) -> str:
        where = " ".join(f"{name}={value}" for name, value in self.key.items())
        return f"{self.table} {where}: {self.field}: {self.problem}"


class Unavailable(MilepostError):
    """A server did not answer, or refused for now. The same call may work later."""


class KafkaUnavailable(Unavailable):
    """Kafka did not answer, or refused for now."""


class DatabaseUnavailable(Unavailable):
    """Postgres did not answer, or refused for now."""


class WrongView(MilepostError):
    """The database holds no milepost view, or one that this version cannot use."""


class WrongLog(MilepostError):
    """The topic is not the log that the view was built from, or lacks a setting that a promise rests on."""


class Fenced(MilepostError):
    """Another consumer has moved the position of these partitions: they are not ours any more.

    `partitions` holds their numbers.
    """

    def __init__(self, partitions: frozenset[int]) -> None:
        super().__init__(partitions)
        self.partitions = partitions

    def __str__(self) -> str:
        numbers = ", ".join(str(number) for number in sorted(self.partitions))
        return f"another consumer has moved the position of partition {numbers}; nothing was written"
