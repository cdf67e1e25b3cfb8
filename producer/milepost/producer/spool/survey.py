"""What a spool's folder holds, looked at without changing it."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from milepost.producer.spool.folder import SegmentName, is_alive, list_folder
from milepost.producer.spool.format import read_about, read_mark, read_records


class PublisherRest(msgspec.Struct, frozen=True):
    """What one publisher has in a folder."""

    publisher_id: str
    topic: str | None
    """None when none of its files says so."""
    source: str | None
    alive: bool
    """Whether a process cares for it now: itself, or a neighbour that sends its rest."""
    files: int
    bytes: int
    events: int
    """Those that the log has not confirmed, as far as the files know: some may be in the log already."""
    damaged: int
    """Stretches of the files that can't be read."""


class FolderStatus(msgspec.Struct, frozen=True):
    """What a folder holds."""

    path: str
    events: int
    bytes: int
    publishers: list[PublisherRest]
    set_aside: list[str]
    """Names of files with damage, whose other events were sent."""
    foreign: list[str]
    """Names of files that belong to no spool, or can't be read: nothing of them is sent."""


class _Count(msgspec.Struct):
    files: int = 0
    bytes: int = 0
    events: int = 0
    damaged: int = 0
    topic: str | None = None
    source: str | None = None


def survey(folder: Path) -> FolderStatus:
    """What a folder holds now; an absent one holds nothing. Raises `OSError` when it can't be read."""
    listing = list_folder(folder)
    foreign = list(listing.foreign)
    publishers = []
    for publisher, numbers in listing.segments.items():
        count = _Count()
        for number in numbers:
            name = str(SegmentName(publisher, number))
            if not _count(folder / name, count):
                foreign.append(name)
        if count.files:
            publishers.append(_rest(folder, publisher, count))
    return FolderStatus(
        path=str(folder),
        events=sum(each.events for each in publishers),
        bytes=sum(each.bytes for each in publishers),
        publishers=publishers,
        set_aside=listing.damaged,
        foreign=sorted(foreign),
    )


def _rest(folder: Path, publisher: str, count: _Count) -> PublisherRest:
    return PublisherRest(
        publisher_id=publisher,
        topic=count.topic,
        source=count.source,
        alive=is_alive(folder, publisher),
        files=count.files,
        bytes=count.bytes,
        events=count.events,
        damaged=count.damaged,
    )


def _count(path: Path, count: _Count) -> bool:
    """Add a file to the count; whether it is one of a spool that can be read."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:  # sent and removed meanwhile
        return True
    except OSError:  # another user's: the others are counted all the same
        return False
    try:
        size = os.fstat(fd).st_size
        if size == 0:
            return True
        if (head := read_about(fd)) is None:
            return False
        about, start = head
        count.files += 1
        count.bytes += size
        count.topic, count.source = about.topic, about.source
        at = read_mark(fd, start, size)
        while at < size:
            found, at = read_records(fd, at, size)
            count.events += sum(record.body is not None for record in found)
            count.damaged += sum(record.body is None for record in found)
        return True
    except OSError:  # the disk does not give it
        return False
    finally:
        os.close(fd)
