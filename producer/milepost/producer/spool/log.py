"""The log of a living publisher: written by those who publish, one at a time, and read by the thread that sends."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from itertools import count
from typing import Final
from uuid import UUID

from milepost.producer.spool.folder import Claim, SegmentName, round_up, used_bytes
from milepost.producer.spool.format import About, file_head, head_of
from milepost.producer.spool.settings import Spool
from milepost.producer.spool.trail import Segment, Trail

AGAIN_SECONDS: Final = 0.05
"""How long a refusal of the disk stands before it is asked once more: asking costs more than an event may."""


class SpoolFullError(Exception):
    """The folder holds as much as it may."""


class Log(Trail):
    """Appends records to segments, the newest of which is open.

    A signal handler may publish in the middle of an append of its own thread. It then writes behind what that append
    has written by then; steps that such a write must not come between are single stores.
    """

    def __init__(self, spool: Spool, publisher_id: UUID, about: About) -> None:
        super().__init__(about.source)
        self._spool: Final = spool
        self._publisher_id: Final = publisher_id
        self._about: Final = about
        self._numbers: Final = count(1)
        self._current: Segment | None = None
        self._appending = False
        self._closed = False
        self._refusal: Exception | None = None
        self._refused_until = 0.0

    def append(self, seq: int, body: bytes, crc: int) -> Segment:
        """Write a record, and give the segment that has it. The caller holds the publishers' lock.

        Raises `OSError` when the disk refuses it, `SpoolFullError` when it would pass the limit.
        """
        head = head_of(seq, len(body), crc)
        total = len(head) + len(body)
        nested, self._appending = self._appending, True
        try:
            segment = self._current
            full = segment is not None and segment.size > segment.start
            if segment is None or (full and not nested and segment.size + total > self._spool.segment_bytes):
                segment = self._rotate(total)
            elif full:
                self._grow(segment, total)
            self._write(segment, head, body)
            if self._closed:  # by a signal handler, in the middle of this
                raise OSError(errno.EBADF, "the publisher was closed meanwhile")
        finally:
            self._appending = nested
        return segment

    def sync(self, segment: Segment) -> None:
        """Wait until the disk has what was appended to the segment. Raises `OSError`."""
        try:
            getattr(os, "fdatasync", os.fsync)(segment.fd)  # not every system has the cheaper one
        except OSError as error:
            if error.errno != errno.EBADF:  # it was delivered and removed meanwhile
                raise

    def tidy(self) -> int:
        """As every trail's; space that came back may be used at once."""
        removed = super().tidy()
        if removed:
            self._refused_until = 0.0
        return removed

    def close(self) -> None:
        """Take no more, and give the segments up; those with nothing left to send are removed."""
        self._closed = True
        current = self._current
        if current is not None:
            current.sealed = True
            if self._appending:  # the handler that closes has cut a write short: what it writes to must stay open
                with contextlib.suppress(OSError):
                    self.tidy()
                self.segments.remove(current)
            self._current = None
        super().close()

    def _write(self, segment: Segment, head: bytes, body: bytes) -> None:
        try:
            written = os.writev(segment.fd, (head, body))
            if written != len(head) + len(body):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            # what was written of it stands behind the segment's end, where nobody reads
            segment.sealed = True
            if self._current is segment:
                self._current = None
            with contextlib.suppress(OSError):
                os.ftruncate(segment.fd, segment.size)
            self._refuse(error)
            raise
        segment.size += written

    def _rotate(self, total: int) -> Segment:
        if self._refusal is not None and time.monotonic() < self._refused_until:
            raise self._refusal.with_traceback(None)
        before = self._current
        try:
            segment = self._create(total)
        except (OSError, SpoolFullError) as error:
            self._refuse(error)
            raise
        self._refusal = None
        if self._current is not before and self._current is not None:  # a signal handler has published meanwhile
            _discard(segment)
            return self._current
        self._current = segment
        self.segments.append(segment)
        if before is not None:
            before.sealed = True
        return segment

    def _create(self, total: int) -> Segment:
        if self.claim is None:
            self.claim = Claim.new(self._spool.folder, self._publisher_id)
        number = next(self._numbers)
        path = self._spool.folder / str(SegmentName(self._publisher_id.hex, number))
        head = file_head(self._about)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        segment = Segment(path, number, fd, len(head), len(head), sealed=False)
        try:
            if os.write(fd, head) != len(head):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            # with the new file in it, so that of two processes that grow at once none passes the limit unseen
            self._check_limit(len(head), len(head) + total)
            if self._spool.fsync:
                _sync_folder(path.parent)
        except (OSError, SpoolFullError):
            _discard(segment)
            raise
        return segment

    def _grow(self, segment: Segment, total: int) -> None:
        """Look at the limit when a record would pass the step that the segment was granted.

        Two processes that do so in the same moment may pass the limit by a step.
        """
        step = self._spool.step_bytes
        if round_up(segment.size + total, step) <= round_up(segment.size, step):
            return
        if self._refusal is not None and time.monotonic() < self._refused_until:
            raise self._refusal.with_traceback(None)
        try:
            self._check_limit(segment.size, segment.size + total)
        except FileNotFoundError:
            return  # somebody has removed the folder: what is open is written on
        except (OSError, SpoolFullError) as error:
            self._refuse(error)
            raise
        self._refusal = None

    def _check_limit(self, size: int, needed: int) -> None:
        """Whether the newest segment may grow from a size to another. Raises `SpoolFullError`, `OSError`."""
        step = self._spool.step_bytes
        used = used_bytes(self._spool.folder, step)
        if used + round_up(needed, step) - round_up(size, step) > self._spool.limit_bytes:
            raise SpoolFullError(f"{self._spool.folder} may hold {self._spool.limit_bytes} bytes (limit_bytes)")

    def _refuse(self, error: Exception) -> None:
        self._refusal = error
        self._refused_until = time.monotonic() + AGAIN_SECONDS


def _discard(segment: Segment) -> None:
    os.close(segment.fd)
    with contextlib.suppress(OSError):
        segment.path.unlink()


def _sync_folder(folder: os.PathLike[str]) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
