"""A partition that cannot go on stops alone: who is to blame for a batch that failed is found by applying each partition alone.

A stopped partition keeps its position and is tried again after a growing pause. What somebody mends heals by itself.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

import msgspec

from milepost.consumer.backoff import Backoff
from milepost.consumer.database import is_about_statement
from milepost.consumer.observe import Observer
from milepost.schemas import Fenced, InvalidSetting, MilepostError, Unavailable, WrongLog, WrongView

logger = logging.getLogger(__name__)

PATIENCE: Final = 3
"""How often in a row a batch fails for a passing cause before each of its partitions is tried alone."""
_BUG: Final = Backoff(1.0, 300.0)
_PASSING: Final = Backoff(1.0, 15.0)


class _Placed(Protocol):
    @property
    def partition(self) -> int: ...


_Record = TypeVar("_Record", bound=_Placed)


class PartitionsFailed(Exception):
    """Records failed for a reason that may lie in them; the cause is what happened."""

    def __init__(self, partitions: Collection[int], offset: int | None = None) -> None:
        super().__init__(partitions, offset)
        self.partitions = partitions
        self.offset = offset
        """The record at fault, where it is known."""

    def __str__(self) -> str:
        which = ", ".join(str(partition) for partition in sorted(self.partitions))
        return f"records of partition {which} could not be applied: {_said(self.cause)}"

    @property
    def cause(self) -> Exception:
        """What happened."""
        return self.__cause__ if isinstance(self.__cause__, Exception) else RuntimeError("for a reason unknown")


class Stopped(msgspec.Struct):
    """Why a partition does not go on."""

    offset: int
    """Its position: the fault lies in the record there, or in one that follows closely."""
    error: str
    failures: int
    due: float
    is_retried: bool = False

    def __str__(self) -> str:
        return f"at offset {self.offset}: {self.error}"


class Isolation:
    """Which partitions of a worker are tried alone, and which are stopped. Not for several threads."""

    def __init__(self, topic: str, observer: Observer, clock: Callable[[], float] = time.monotonic) -> None:
        self._topic = topic
        self._observer = observer
        self._clock = clock
        self._suspects: set[int] = set()
        self.stopped: dict[int, Stopped] = {}

    @property
    def is_on(self) -> bool:
        """Whether each partition is applied alone, since somebody is suspected."""
        return bool(self._suspects)

    def parts(self, records: Sequence[_Record]) -> Iterable[Sequence[_Record]]:
        """Records to be applied together: all of them, or, while somebody is suspected, each partition's."""
        if not self._suspects:
            return [records] if records else []
        parts: dict[int, list[_Record]] = {}
        for record in records:
            parts.setdefault(record.partition, []).append(record)
        return parts.values()

    def blame(self, failed: PartitionsFailed, positions: Mapping[int, int]) -> None:
        """A batch failed, whose partitions stand at `positions`: the only one is stopped, several are suspected."""
        partitions, error = failed.partitions, failed.cause
        if len(partitions) == 1:
            (partition,) = partitions
            self._stop(partition, positions.get(partition, 0) if failed.offset is None else failed.offset, error)
            return
        logger.warning(
            "a batch of partitions %s failed (%s); each is applied alone now",
            *(", ".join(str(partition) for partition in sorted(partitions)), _said(error)),
            extra={"event": "batch_failed", "topic": self._topic},
        )
        self._suspects.update(partitions)

    def passed(self, records: Iterable[_Placed]) -> None:
        """A batch was committed."""
        if not self._suspects and not self.stopped:
            return
        for partition in {record.partition for record in records}:
            self._suspects.discard(partition)
            if (stopped := self.stopped.pop(partition, None)) is not None:
                logger.info(
                    "partition %d goes on, stopped at offset %d before",
                    *(partition, stopped.offset),
                    extra={
                        "event": "partition_goes_on",
                        "topic": self._topic,
                        "partition": partition,
                        "offset": stopped.offset,
                    },
                )
                self._tell(0)

    @property
    def is_due(self) -> bool:
        """Whether a stopped partition is to be tried again."""
        now = self._clock()
        return any(not each.is_retried and each.due <= now for each in self.stopped.values())

    def startable(self, positions: Mapping[int, int]) -> dict[int, int]:
        """Those of our partitions to be read: not the stopped, unless they are due. What is not ours any more is forgotten."""
        now = self._clock()
        self._suspects &= positions.keys()
        for partition in self.stopped.keys() - positions.keys():
            del self.stopped[partition]
        for partition, each in self.stopped.items():
            each.is_retried = each.due <= now
            if each.is_retried:
                self._suspects.add(partition)
            else:
                # it gives nothing to be tried by
                self._suspects.discard(partition)
        self._tell(0)
        return {p: offset for p, offset in positions.items() if p not in self.stopped or self.stopped[p].is_retried}

    def _stop(self, partition: int, offset: int, error: Exception) -> None:
        before = self.stopped.get(partition)
        failures = before.failures + 1 if before is not None else 1
        pause = (_PASSING if isinstance(error, Unavailable) else _BUG).seconds(failures)
        self.stopped[partition] = Stopped(offset, _said(error), failures, self._clock() + pause)
        self._suspects.discard(partition)
        is_news = before is None or before.error != _said(error) or before.offset != offset
        logger.log(
            logging.ERROR if is_news else logging.DEBUG,
            "partition %d of %s is stopped at offset %d: %s; the others go on; it is tried again, next in %.0f s",
            *(partition, self._topic, offset, _said(error), pause),
            exc_info=error if is_news and not isinstance(error, MilepostError) else None,
            extra={"event": "partition_stopped", "topic": self._topic, "partition": partition, "offset": offset},
        )
        self._tell(int(before is None))

    def _tell(self, stops: int) -> None:
        self._observer.stopped({partition: str(each) for partition, each in self.stopped.items()}, stops)


def is_of_partition(error: Exception, *, is_tried: bool) -> bool:
    """Whether a batch's failure may lie in its records; a passing cause only once waiting was tried."""
    if isinstance(error, Fenced | WrongLog | WrongView | InvalidSetting):
        return False
    if isinstance(error, Unavailable):
        return is_tried and is_about_statement(error)
    return True


def stopped_error(stopped: Mapping[int, Stopped], topic: str) -> MilepostError:
    """What ends a consumer that was to catch up and cannot."""
    which = "; ".join(
        f"partition {partition} of {topic} is stopped {each}" for partition, each in sorted(stopped.items())
    )
    return MilepostError(f"{which}; mend the cause, then run this again: it goes on from there")


def _said(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, MilepostError) else f"{type(error).__name__}: {text}"
