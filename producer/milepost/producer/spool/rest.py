"""The rest of publishers that have died: found, claimed, read as their own log would be."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from milepost.producer.spool.folder import FOREIGN, Claim, SegmentName, list_folder
from milepost.producer.spool.format import About, read_about, read_mark
from milepost.producer.spool.trail import Segment, Trail

logger = logging.getLogger("milepost.producer")

PATIENCE_SECONDS: Final = 10.0
"""How long a publisher must be dead before a neighbour sends its rest: whoever is started in its place comes first."""


class Rest(Trail):
    """All segments of a dead publisher."""

    def __init__(self, claim: Claim, source: str, segments: list[Segment]) -> None:
        super().__init__(source)
        self.claim = claim
        self.segments.extend(segments)

    def _begin(self, segment: Segment) -> int:
        return read_mark(segment.fd, segment.start, segment.size)


class Finder:
    """Looks for the rest of dead publishers of the same topic."""

    def __init__(self, folder: Path, topic: str) -> None:
        self._folder: Final = folder
        self._topic: Final = topic
        self._dead_since: dict[str, float] = {}
        self._skipped: Final[set[str]] = set()
        self._started = False

    def look(self, mine: str) -> Iterator[Rest]:
        """Claim what can be claimed, oldest first: all of it the first time, later what has been dead for a while.

        `mine` is the publisher to leave alone. Raises `OSError` when the folder can't be read or written.
        """
        dead_since, self._dead_since = self._dead_since, {}
        first, self._started = not self._started, True
        for publisher, numbers in list_folder(self._folder).segments.items():
            if publisher == mine:
                continue
            try:
                claim = Claim.of_dead(self._folder, publisher)
                if claim is None:
                    continue
                since = self._dead_since[publisher] = dead_since.get(publisher, time.monotonic())
                due = first or time.monotonic() - since >= PATIENCE_SECONDS
                if not due:
                    claim.release(remove=False)
                    continue
                rest = self._rest(claim, publisher, numbers)
            except (
                OSError
            ) as error:  # another user's, or a disk that does not give it: the others are sent all the same
                self._skip(publisher, error)
                continue
            if rest is not None:
                yield rest

    def _skip(self, publisher: str, error: OSError) -> None:
        if publisher not in self._skipped:
            self._skipped.add(publisher)
            logger.error("spool: what publisher %s left in %s is not sent: %s", publisher, self._folder, error)

    def _rest(self, claim: Claim, publisher: str, numbers: list[int]) -> Rest | None:
        """What a claim stands for; given up when that is nothing, or can't be opened."""
        try:
            opened = self._open(publisher, numbers)
            remove = not opened and not list_folder(self._folder).segments.get(publisher)
        except OSError:
            claim.release(remove=False)
            raise
        if opened:
            return Rest(claim, opened[0][1].source, [segment for segment, _ in opened])
        claim.release(remove=remove)
        return None

    def _open(self, publisher: str, numbers: list[int]) -> list[tuple[Segment, About]]:
        found: list[tuple[Segment, About]] = []
        try:
            for number in numbers:
                path = self._folder / str(SegmentName(publisher, number))
                opened = open_segment(path, number)
                if opened is not None and opened[1].topic == self._topic:
                    found.append(opened)
                elif opened is not None:
                    os.close(opened[0].fd)
        except OSError:
            for segment, _ in found:
                os.close(segment.fd)
            raise
        return found


def open_segment(path: Path, number: int) -> tuple[Segment, About] | None:
    """Open a segment that nobody writes; one that is none gets another name. Raises `OSError`."""
    try:
        fd = os.open(path, os.O_RDWR)
    except FileNotFoundError:  # sent and removed meanwhile
        return None
    try:
        size = os.fstat(fd).st_size
        head = read_about(fd) if size else None
    except OSError:
        os.close(fd)
        raise
    if size == 0:  # its publisher died before it held anything
        os.close(fd)
        path.unlink()
        return None
    if head is None:
        os.close(fd)
        path.rename(path.with_name(path.name + FOREIGN))
        logger.error(
            "spool: %s is no file of a spool: nothing of it is sent; it is kept as %s", path, path.name + FOREIGN
        )
        return None
    about, start = head
    return Segment(path, number, fd, start, size, sealed=True), about
