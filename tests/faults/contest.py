"""Two writers of one view, without processes: one has planned a batch when the other writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from milepost.consumer.materializer import Materializer
from milepost.consumer.records import LogRecord
from milepost.schemas import DEFAULT_TOPIC, Event, Fenced
from tests.fixtures.dump import Dump, dump
from tests.fixtures.view import PARTITIONS, FakeLog, bind_log


class Contest:
    """Two writers of one view, and a log that goes on from one example to the next."""

    def __init__(self, database: str) -> None:
        bind_log(database)
        self.database = database
        self.log = FakeLog()
        self._writers = (self.writer(), self.writer())

    def append(self, happened: Sequence[Event]) -> list[LogRecord]:
        """Put events at the log's end."""
        return [self.log.append(event) for event in happened]

    def lose(self, planned: Sequence[LogRecord], theirs: Sequence[LogRecord]) -> tuple[frozenset[int], Dump, Dump]:
        """Plan a batch, let another writer be quicker, then write: what was lost, the view before and after."""
        seen: list[Dump] = []
        zombie, other = self._writers
        for writer in self._writers:
            writer.take(range(PARTITIONS))
        write_plan = Materializer._write_plan

        def late(*arguments: Any) -> int:
            other.apply(theirs)
            seen.append(dump(self.database))
            return write_plan(zombie, *arguments)

        zombie._write_plan = late  # type: ignore[method-assign,assignment]
        with pytest.raises(Fenced) as fenced:
            zombie.apply(planned)
        return fenced.value.partitions, seen[0], dump(self.database)

    def finish(self, records: Sequence[LogRecord]) -> None:
        """Apply what neither has."""
        other = self._writers[1]
        stands = other.take(range(PARTITIONS))
        other.apply([record for record in records if record.offset >= stands[record.partition]])

    def close(self) -> None:
        """Close both."""
        for writer in self._writers:
            writer.close()

    def writer(self) -> Materializer:
        """Somebody who has taken all partitions, as they stand now."""
        writer = Materializer(self.database, DEFAULT_TOPIC)
        writer.take(range(PARTITIONS))
        return writer
