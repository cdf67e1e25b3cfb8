"""The file of an export: a tar archive of plain files, written and read one after the other.

Tar, since it keeps no list in memory or at its end, compresses nothing (so that no archive unfolds to more than it is, and the
bytes are the same by every zlib), and is unpacked by what every system has. Of tar's many forms one is allowed: the header that
this module writes for a name and a size, byte for byte. Other headers, other members and anything behind the end are refused.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import BinaryIO, Final

import msgspec

from milepost.schemas import MilepostError

README, ASYNCAPI, HISTORY, MANIFEST = "README.txt", "asyncapi.json", "history.jsonl", "manifest.json"
CHECKSUM: Final = "manifest.sha256"
STATES: Final = "states/"
_BLOCK: Final = tarfile.BLOCKSIZE
_NO_BYTES: Final = bytes(_BLOCK)
_CHUNK: Final = 1024 * 1024
_LARGEST: Final = 2**62


class BrokenExportError(MilepostError):
    """A file is no export, or only a part of one: it can't be read on."""


class Member(msgspec.Struct, frozen=True):
    """A file of the archive: where its bytes are."""

    name: str
    offset: int
    size: int

    @property
    def end(self) -> int:
        """Where the next header begins."""
        return self.offset + self.size + -self.size % _BLOCK


def state_name(seq: int) -> str:
    """The member that holds the state of an event."""
    return f"{STATES}{seq:020d}.json"


def checksum_of(manifest: bytes) -> bytes:
    """The last member: the manifest's digest, as `sha256sum --check` reads it."""
    return f"{sha256(manifest).hexdigest()}  {MANIFEST}\n".encode()


class ArchiveWriter:
    """Writes an archive into a seekable file."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def add(self, name: str, content: bytes) -> None:
        """Add a member."""
        self._stream.write(_header(name, len(content)))
        self._stream.write(content)
        self._stream.write(bytes(-len(content) % _BLOCK))

    @contextmanager
    def growing(self, name: str) -> Iterator[BinaryIO]:
        """Add a member whose size is known when all of it was written."""
        header = self._stream.tell()
        self._stream.write(_header(name, 0))
        yield self._stream
        size = self._stream.tell() - header - _BLOCK
        self._stream.write(bytes(-size % _BLOCK))
        end = self._stream.tell()
        self._stream.seek(header)
        self._stream.write(_header(name, size))
        self._stream.seek(end)

    def finish(self) -> None:
        """Write the end."""
        self._stream.write(_NO_BYTES * 2)


class ArchiveReader:
    """Reads an archive of whatever origin, in constant memory. Every method raises `BrokenExportError`."""

    def __init__(self, stream: BinaryIO) -> None:
        self._file = stream.fileno()
        self._size = os.fstat(self._file).st_size

    def member(self, at: int) -> Member | None:
        """The member whose header stands there; None at the end of the archive, behind which nothing may follow."""
        block = self._exactly(at, _BLOCK)
        if block == _NO_BYTES:
            if self._exactly(at + _BLOCK, _BLOCK) != _NO_BYTES or self._size != at + 2 * _BLOCK:
                raise BrokenExportError(f"at byte {at}: expected the end of the archive, found more behind it")
            return None
        try:
            found = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
        except (tarfile.HeaderError, ValueError) as error:
            raise BrokenExportError(f"at byte {at}: expected the header of a member, found none ({error})") from None
        if not 0 <= found.size <= _LARGEST or block != _header(found.name, found.size):
            raise BrokenExportError(
                f"at byte {at}: expected a plain file as milepost writes it, found {found.name!r:.80}"
            )
        member = Member(found.name, at + _BLOCK, found.size)
        if member.end > self._size:
            raise BrokenExportError(
                f"{member.name}: expected {member.size} bytes, found the end of the file: the archive was cut off"
            )
        return member

    def read(self, member: Member, limit: int) -> bytes:
        """The bytes of a member that may have so many at most."""
        if member.size > limit:
            raise BrokenExportError(f"{member.name}: expected at most {limit} bytes, found {member.size}")
        self._check_padding(member)
        return self._exactly(member.offset, member.size)

    def digest(self, member: Member) -> bytes:
        """The SHA-256 of a member."""
        self._check_padding(member)
        found = sha256()
        for chunk in self._chunks(member):
            found.update(chunk)
        return found.digest()

    def lines(self, member: Member, limit: int) -> Iterator[bytes]:
        """The lines of a member without their ends; each may have so many bytes at most."""
        rest = b""
        for chunk in self._chunks(member):
            *lines, rest = (rest + chunk).split(b"\n")
            yield from lines
            if len(rest) > limit:
                raise BrokenExportError(f"{member.name}: expected lines of at most {limit} bytes, found a longer one")
        if rest:
            raise BrokenExportError(f"{member.name}: expected a line end at its end, found none")

    def _chunks(self, member: Member) -> Iterator[bytes]:
        for start in range(0, member.size, _CHUNK):
            yield self._exactly(member.offset + start, min(_CHUNK, member.size - start))

    def _check_padding(self, member: Member) -> None:
        if any(self._exactly(member.offset + member.size, -member.size % _BLOCK)):
            raise BrokenExportError(f"{member.name}: expected zeros behind it, found other bytes")

    def _exactly(self, at: int, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            part = os.pread(self._file, count - len(parts), at + len(parts))
            if not part:
                raise BrokenExportError(
                    f"at byte {at}: expected {count} bytes more, found the end: the archive was cut off"
                )
            parts += part
        return bytes(parts)


def _header(name: str, size: int) -> bytes:
    """Nothing in it tells when, where or by whom the archive was made: the same session gives the same bytes."""
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = size, 0, 0o600
    header = info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
    return header if len(header) == _BLOCK else b""
