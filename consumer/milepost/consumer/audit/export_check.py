"""Is an export what it says: proved from the file alone, in constant memory, whatever the file is.

What it proves is that nothing was damaged or changed by halves: who rewrites all of it, digests too, makes an export that agrees
with itself. Compare its chain with the one of the view, or of somebody who was given it before.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from itertools import chain as chained
from typing import BinaryIO, Final

import msgspec

from milepost.consumer.audit.export_archive import (
    ASYNCAPI,
    CHECKSUM,
    HISTORY,
    MANIFEST,
    README,
    STATES,
    ArchiveReader,
    BrokenExportError,
    Member,
    checksum_of,
    state_name,
)
from milepost.consumer.audit.export_places import Places
from milepost.consumer.audit.export_rows import (
    FORMAT,
    MAX_LINE_BYTES,
    MAX_MANIFEST_BYTES,
    ExportedRow,
    Manifest,
    Missing,
    manifest_of,
    manifest_text,
    row_of,
)
from milepost.consumer.chain import START, extend
from milepost.consumer.rules import Outcome
from milepost.schemas import MAX_STATE_BYTES, Kind

MOST_PROBLEMS: Final = 100
"""So many are told; all are counted."""
_PLAIN: Final = (README, ASYNCAPI, HISTORY)


class ExportCheck(msgspec.Struct):
    """What a check found."""

    tenant_id: str | None = None
    session_id: str | None = None
    events: int = 0
    chain: bytes = START
    """Recomputed from the history."""
    states: int = 0
    missing: int = 0
    """States that the archive says it lacks."""
    problem_count: int = 0
    problems: list[str] = msgspec.field(default_factory=list)
    """The first ones, in the order of the archive."""

    @property
    def ok(self) -> bool:
        """Whether everything fits."""
        return not self.problem_count

    def add(self, problem: str) -> None:
        """Take in what does not fit."""
        self.problem_count += 1
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(problem)


class Contents(msgspec.Struct, frozen=True):
    """Where the parts of an archive are."""

    plain: dict[str, Member]
    states: int
    """Where the header of the first state stands, or of the manifest."""
    manifest: Manifest


def check_export(stream: BinaryIO) -> ExportCheck:
    """Check an export. A file that is none is told among the problems; raises nothing but what reading a file raises."""
    found = ExportCheck()
    reader = ArchiveReader(stream)
    try:
        contents = contents_of(reader)
        _Check(reader, contents, found).run()
    except BrokenExportError as error:
        found.add(str(error))
    return found


def contents_of(reader: ArchiveReader) -> Contents:
    """Walk through the archive's headers. Raises `BrokenExportError` when its parts are not an export's, in their order."""
    plain: dict[str, Member] = {}
    at = 0
    for name in _PLAIN:
        plain[name] = member = _expect(reader, at, name)
        if name != HISTORY and member.size > MAX_LINE_BYTES:
            raise BrokenExportError(f"{name}: expected at most {MAX_LINE_BYTES} bytes, found {member.size}")
        at = member.end
    states, last = at, ""
    while (found := reader.member(at)) is not None and found.name.startswith(STATES):
        if found.name <= last:
            raise BrokenExportError(f"{found.name}: expected rising numbers, found it after {last}")
        last, at = found.name, found.end
    member = _expect(reader, at, MANIFEST)
    text = reader.read(member, MAX_MANIFEST_BYTES)
    checksum = _expect(reader, member.end, CHECKSUM)
    if reader.member(checksum.end) is not None:
        raise BrokenExportError(f"expected {CHECKSUM} to be the last member, found another one behind it")
    if reader.read(checksum, MAX_LINE_BYTES) != checksum_of(text):
        raise BrokenExportError(f"{MANIFEST}: expected the SHA-256 that stands in {CHECKSUM}, found another")
    try:
        manifest = manifest_of(text)
    except ValueError as error:
        raise BrokenExportError(f"{MANIFEST}: {error}") from None
    if manifest_text(manifest) != text:
        raise BrokenExportError(f"{MANIFEST}: expected the fields in their order and nothing else")
    return Contents(plain, states, manifest)


def rows(reader: ArchiveReader, contents: Contents) -> Iterator[tuple[ExportedRow, Member | None]]:
    """The events in order, each with the member that holds its state, if one does. Raises `BrokenExportError`."""
    at = contents.states
    state = reader.member(at)
    for number, line in enumerate(reader.lines(contents.plain[HISTORY], MAX_LINE_BYTES), 1):
        try:
            row = row_of(line)
        except ValueError as error:
            raise BrokenExportError(f"{HISTORY}, line {number}: {error}") from None
        if row.seq != number:
            raise BrokenExportError(f"{HISTORY}, line {number}: expected seq {number}, found {row.seq}")
        if state is not None and state.name == state_name(number):
            yield row, state
            state = reader.member(state.end)
        else:
            yield row, None
    if state is None or state.name != MANIFEST:
        raise BrokenExportError(f"{state.name if state else MANIFEST}: expected an event of this number in {HISTORY}")


def _expect(reader: ArchiveReader, at: int, name: str) -> Member:
    found = reader.member(at)
    if found is None or found.name != name:
        raise BrokenExportError(
            f"at byte {at}: expected {name}, found {found.name if found is not None else 'the end'!r:.80}"
        )
    return found


class _Check:
    def __init__(self, reader: ArchiveReader, contents: Contents, found: ExportCheck) -> None:
        self._reader = reader
        self._contents = contents
        self._manifest = contents.manifest
        self._found = found
        self._states = sha256()
        self._state_bytes = 0
        self._gaps = _Gaps(contents.manifest.missing)
        self._places = Places()
        self._deleted_seq: int | None = None
        self._newest: dict[int, str | None] = {}

    def run(self) -> None:
        """Check everything, in the order of the archive."""
        found, manifest = self._found, self._manifest
        found.tenant_id, found.session_id = manifest.tenant_id, manifest.session_id
        self._equal(MANIFEST, "format", FORMAT, manifest.format)
        self._check_members()
        for row, member in rows(self._reader, self._contents):
            self._check_row(row)
            if row.kind is Kind.CHECKPOINT_CREATED:
                self._check_state(row, member)
            elif member is not None:
                found.add(f"{member.name}: expected no state, since the event is a deletion")
        self._check_totals()

    def _check_members(self) -> None:
        members = {each.name: each for each in self._manifest.members}
        self._equal(MANIFEST, "members", list(_PLAIN), [each.name for each in self._manifest.members])
        for name, member in self._contents.plain.items():
            if (wanted := members.get(name)) is not None:
                self._equal(name, "bytes", wanted.size, member.size)
                self._equal(name, "SHA-256", wanted.sha256, self._reader.digest(member).hex())

    def _check_row(self, row: ExportedRow) -> None:
        found, manifest = self._found, self._manifest
        where = f"{HISTORY}, seq {row.seq}"
        found.events = row.seq
        self._equal(where, "tenant_id", manifest.tenant_id, row.tenant_id)
        self._equal(where, "session_id", manifest.session_id, row.session_id)
        self._equal(where, "topic", manifest.log.topic, row.topic)
        self._equal(where, "partition", manifest.head.partition, row.partition)
        is_created = row.kind is Kind.CHECKPOINT_CREATED
        if is_created != (row.sha256 is not None) or is_created != (row.checkpoint_id is not None):
            found.add(f"{where}: expected a checkpoint id and a SHA-256 for a checkpoint, and none for a deletion")
        try:
            for problem in self._places.problems(row):
                found.add(f"{where}: {problem}")
            found.chain = extend(found.chain, row.event(), row.seq, row.outcome.value)
        except ValueError as error:
            raise BrokenExportError(f"{where}: {error}") from None
        if row.chain != found.chain.hex():
            found.add(f"{where}: chain: expected {found.chain.hex()}, recomputed from the columns, found {row.chain}")
            # the rows behind are judged by what they say of each other
            found.chain = _digest_of(row.chain, where)
        if row.outcome is Outcome.APPLIED and not is_created:
            self._deleted_seq = row.seq
        if row.seq == manifest.head.newest_seq:
            self._newest = {row.seq: row.checkpoint_id if row.outcome is Outcome.APPLIED else None}

    def _check_state(self, row: ExportedRow, member: Member | None) -> None:
        declared = self._gaps.holds(row.seq)
        if member is None:
            self._found.missing += 1
            if not declared:
                self._found.add(f"{state_name(row.seq)}: expected the state of {row.checkpoint_id}, found none")
            return
        if declared:
            self._found.add(f"{member.name}: expected none, since {MANIFEST} says that it is missing")
        if member.size > MAX_STATE_BYTES:
            raise BrokenExportError(f"{member.name}: expected at most {MAX_STATE_BYTES} bytes, found {member.size}")
        digest = self._reader.digest(member).hex()
        self._equal(member.name, "bytes", row.size, member.size)
        self._equal(member.name, "SHA-256", row.sha256, digest)
        self._found.states += 1
        self._state_bytes += member.size
        self._states.update(f"{row.seq} {digest}\n".encode())

    def _check_totals(self) -> None:
        found, manifest, head = self._found, self._manifest, self._manifest.head
        for name, wanted, is_there in (
            ("events", manifest.events, found.events),
            ("head.last_seq", head.last_seq, found.events),
            ("head.chain", head.chain, found.chain.hex()),
            ("head.deleted_seq", head.deleted_seq, self._deleted_seq),
            ("states.count", manifest.states.count, found.states),
            ("states.bytes", manifest.states.bytes, self._state_bytes),
            ("states.sha256", manifest.states.sha256, self._states.hexdigest()),
        ):
            self._equal(MANIFEST, name, wanted, is_there)
        if head.newest_seq is not None:
            newest = self._newest.get(head.newest_seq)
            self._equal(MANIFEST, "head.newest_checkpoint_id", head.newest_checkpoint_id, newest)

    def _equal(self, where: str, what: str, wanted: object, is_there: object) -> None:
        if wanted != is_there:
            self._found.add(f"{where}: {what}: expected {wanted!r:.200}, found {is_there!r:.200}")


class _Gaps:
    """The seqs that an archive says it lacks; asked in rising order."""

    def __init__(self, missing: list[Missing]) -> None:
        self._left = chained(missing, [None])
        self._now = next(self._left)

    def holds(self, seq: int) -> bool:
        while self._now is not None and self._now.last_seq < seq:
            self._now = next(self._left)
        return self._now is not None and self._now.first_seq <= seq


def _digest_of(text: str, where: str) -> bytes:
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b""
    if len(found) != len(START):
        raise BrokenExportError(f"{where}: chain: expected 64 hexadecimal digits, found {text!r:.80}")
    return found
