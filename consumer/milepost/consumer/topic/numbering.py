"""Whether publishers' numbers still grow in the new partitions where they grew in the old ones.

A view counts a publisher's event when its number is above those before it in the partition (`numbers.py`). Where records of
several old partitions come together in a new one, they stand there by the log's time, and a number may come after a higher one.
"""

from __future__ import annotations

from confluent_kafka import Message

from milepost.consumer.numbers import Numbered, number_in_headers
from milepost.consumer.records import LogRecord
from milepost.consumer.topic.placement import at
from milepost.schemas.wire import Headers


class Numbering:
    """Follows the copy, record by record."""

    def __init__(self) -> None:
        self._highest: dict[tuple[bool, int, bytes], int] = {}
        """By whether it is the new topic, partition, publisher."""
        self.changed = 0
        """Events that a view of one topic counts, and one of the other does not."""

    def follow(self, message: Message, partition: int, headers: Headers) -> Numbered | None:
        """Take a record in that goes to `partition` of the copy; its number, if it is counted in one of the two topics alone."""
        number = number_in_headers(LogRecord(at(message), 0, 0, None, None, headers, None))
        if number is None:
            return None
        before = self._counts(False, at(message), number)
        after = self._counts(True, partition, number)
        if before == after:
            return None
        self.changed += 1
        return number

    def _counts(self, is_new: bool, partition: int, number: Numbered) -> bool:
        place = (is_new, partition, number.publisher_id)
        highest = self._highest.get(place, 0)
        self._highest[place] = max(highest, number.seq)
        return number.seq > highest
