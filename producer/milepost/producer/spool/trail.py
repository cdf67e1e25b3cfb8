"""A publisher's segments as they are read, sent and settled, in order. For the thread that sends."""

from __future__ import annotations

import contextlib
import logging
import os
from collections import deque
from pathlib import Path
from typing import Final

from milepost.producer.spool.folder import DAMAGED, Claim
from milepost.producer.spool.format import Found, read_records, write_mark

logger = logging.getLogger("milepost.producer")


class Segment:
    """One file, open."""

    __slots__ = ("damaged", "fd", "number", "path", "sealed", "size", "start")

    def __init__(self, path: Path, number: int, fd: int, start: int, size: int, *, sealed: bool) -> None:
        self.path: Final = path
        self.number: Final = number
        self.fd: Final = fd
        self.start: Final = start
        """Where its first record stands."""
        self.size = size
        """Up to where whole records stand."""
        self.sealed = sealed
        """Whether nothing more will be written."""
        self.damaged = False


class Trail:
    """Segments of one publisher, the oldest first: how far they were read, and what of that is not settled yet."""

    def __init__(self, source: str) -> None:
        self.source: Final = source
        """The publisher's name of itself: the events' `ce_source`."""
        self.segments: Final[deque[Segment]] = deque()
        self.claim: Claim | None = None
        self._pending: Final[dict[int, tuple[Segment, int]]] = {}  # by a count of the records read: in order
        self._read = 0
        self._reading: Segment | None = None
        self._at = 0
        self._marked: tuple[Segment, int] | None = None

    @property
    def pending(self) -> int:
        """How many records were read and are not settled."""
        return len(self._pending)

    def unread(self) -> bool:
        """Whether there is something to read."""
        reading = self._reading
        if reading is None:
            return any(segment.size > segment.start for segment in self.segments)
        return self._at < reading.size or self._next() is not None

    def read(self) -> list[tuple[int, Found]]:
        """The next records, each with the place to settle it by; about a chunk of them, none when all was read.

        Raises `OSError` when the disk does not give them.
        """
        segment = self._reading
        while segment is None or self._at >= segment.size:
            segment = self._next()
            if segment is None:
                return []
            self._reading, self._at = segment, self._begin(segment)
        found, self._at = read_records(segment.fd, self._at, segment.size)
        places = []
        for record in found:
            self._read += 1
            self._pending[self._read] = (segment, record.start)
            if record.body is None:
                self._set_aside(segment, record)
            places.append((self._read, record))
        return places

    def settle(self, place: int) -> None:
        """The record of this place needs nothing more."""
        self._pending.pop(place, None)

    def tidy(self) -> int:
        """Remove the segments of which all is settled, and mark how far the oldest is; how many were removed.

        Raises `OSError` when the disk refuses.
        """
        removed = 0
        oldest = next(iter(self._pending.values()), None)
        while self.segments:
            segment = self.segments[0]
            if oldest is not None and oldest[0] is segment:
                break
            if segment is self._reading and not (segment.sealed and self._at >= segment.size):
                break
            if self._reading is None or segment.number > self._reading.number:
                break
            self.segments.popleft()
            self._remove(segment)
            removed += 1
        mark = oldest or ((self._reading, self._at) if self._reading in self.segments and self._reading else None)
        if mark is not None and mark != self._marked:
            self._marked = mark
            write_mark(mark[0].fd, mark[1])
        return removed

    def close(self) -> None:
        """Give the segments up; those with nothing left to send are removed."""
        with contextlib.suppress(OSError):
            self.tidy()
        if not self._pending and not self.unread():
            while self.segments:
                self._remove(self.segments.popleft())
        empty = not self.segments
        self.let_go()
        if self.claim is not None:
            self.claim.release(remove=empty)

    def disown(self) -> None:
        """In a forked child: close what is the parent's, and change nothing."""
        self.let_go()
        if self.claim is not None:
            self.claim.release(remove=False)

    def let_go(self) -> None:
        """Close the files."""
        while self.segments:
            _close(self.segments.popleft().fd)
        self._pending.clear()
        self._reading = None

    def _begin(self, segment: Segment) -> int:
        """Where to begin in a segment."""
        return segment.start

    def _next(self) -> Segment | None:
        """The segment after the one that is read, once that one is sealed."""
        reading = self._reading
        if reading is None:
            return self.segments[0] if self.segments else None
        if not reading.sealed:
            return None
        return next((segment for segment in tuple(self.segments) if segment.number > reading.number), None)

    def _set_aside(self, segment: Segment, record: Found) -> None:
        segment.damaged = True
        logger.error(
            "spool: %s is damaged from byte %d to %d: that is not sent; the file is kept as %s",
            segment.path,
            record.start,
            record.end,
            segment.path.name + DAMAGED,
        )

    def _remove(self, segment: Segment) -> None:
        try:
            if segment.damaged:
                segment.path.rename(segment.path.with_name(segment.path.name + DAMAGED))
            else:
                segment.path.unlink()
        except FileNotFoundError:
            pass  # somebody has cleaned up by hand
        except OSError as error:
            logger.warning("spool: %s could not be removed: %s; its events may be sent again", segment.path, error)
            with contextlib.suppress(OSError):
                write_mark(segment.fd, segment.size)
        finally:
            _close(segment.fd)


def _close(fd: int) -> None:
    with contextlib.suppress(OSError):
        os.close(fd)
