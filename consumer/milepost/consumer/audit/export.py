"""One session as one file that proves itself: its history with the chain, and every state that view or log still holds.

`export_check.py` proves it without a server, `export_import.py` publishes it again. docs/audit.md describes the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from importlib.metadata import version
from importlib.resources import files
from typing import BinaryIO, Final

import msgspec

from milepost.consumer import queries
from milepost.consumer.audit.export_archive import (
    ASYNCAPI,
    CHECKSUM,
    HISTORY,
    MANIFEST,
    README,
    ArchiveWriter,
    checksum_of,
    state_name,
)
from milepost.consumer.audit.export_rows import (
    FORMAT,
    ExportedHead,
    ExportedLog,
    Manifest,
    MemberDigest,
    Missing,
    StatesDigest,
    line_of,
    manifest_text,
    shown_time,
)
from milepost.consumer.audit.rows import entry, raw_cursor
from milepost.consumer.database import Connection, connect, translated
from milepost.consumer.log import LogIdentity
from milepost.consumer.logged import LogRecords
from milepost.consumer.watch import bound_log
from milepost.schemas import WrongLog, WrongView
from milepost.schemas.published import asyncapi

_AT_ONCE: Final = 500
_ABOUT: Final = b"""This is the history of one session of milepost, an event-sourced checkpoint store.

  manifest.json   what this is and what must be in it: sizes and SHA-256 of every part, the session's head, the log
  history.jsonl   one line for each event, in order, with the digest that chains it to the one before
  states/SEQ.json the published bytes of the checkpoint that the event SEQ brought; the SHA-256 stands in history
  asyncapi.json   the wire on which the events came
  manifest.sha256 for sha256sum --check

milepost audit check-export FILE proves it without a server; milepost import FILE publishes it again.
"""

Tell = Callable[[int, int], None]
"""Told how many of how many events are done."""


class Exported(msgspec.Struct, frozen=True):
    """What an export holds."""

    events: int
    chain: bytes
    """The digest over all of them."""
    from_view: int
    from_log: int
    missing: int
    """States that neither of the two holds; the manifest says which and why."""
    state_bytes: int


class ExportRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Which session, and where it is."""

    database: str
    kafka: str | None
    """Where the log answers; None to take live states from the view and no others."""
    tenant_id: str
    session_id: str
    timeout: float = 30.0
    """Seconds to wait for each record of the log."""


def export_session(request: ExportRequest, stream: BinaryIO, tell: Tell | None = None) -> Exported | None:
    """Write the session's archive into a seekable file, in constant memory; None when there is no such session.

    All of it is read from one snapshot. The same session of the same view gives the same bytes. Raises `WrongLog` when Kafka has
    another log than the view's, `WrongView`, `KafkaUnavailable`, `DatabaseUnavailable`.
    """
    with _snapshot(request) as connection:
        names = [request.tenant_id, request.session_id]
        head = connection.execute(queries.load("export")["head"], names, binary=True).fetchone()
        if head is None:
            return None
        log = bound_log(connection)
        if log is None:
            raise WrongView("expected a view of a log, found one that was never filled; run: milepost setup")
        return _Export(request, connection, ArchiveWriter(stream), tell).write(_head(*head), log)


@contextmanager
def _snapshot(request: ExportRequest) -> Iterator[Connection]:
    with (
        closing(connect(request.database, application="milepost-audit")) as connection,
        translated(request.database),
        connection.transaction(),
    ):
        connection.execute("set transaction isolation level repeatable read, read only")
        # for a reader, whom row-level security shows one tenant
        connection.execute("select set_config('milepost.tenant_id', %s, true)", [request.tenant_id])
        yield connection


def _head(
    partition: int, last_seq: int, newest: int | None, newest_id: str | None, first: int, last: int, *rest: object
) -> ExportedHead:
    live, live_bytes, deleted_at, deleted_seq, chain = rest
    deleted = shown_time(deleted_at) if isinstance(deleted_at, int) else None
    times = (shown_time(first), shown_time(last))
    values = (partition, last_seq, newest, newest_id, *times, live, live_bytes, deleted, deleted_seq)
    return ExportedHead(*values, chain.hex())  # type: ignore[arg-type, attr-defined]


class _Export:
    """One way through a session."""

    def __init__(
        self, request: ExportRequest, connection: Connection, archive: ArchiveWriter, tell: Tell | None
    ) -> None:
        self._request = request
        self._connection = connection
        self._archive = archive
        self._tell = tell
        self._names = [request.tenant_id, request.session_id]
        self._statements = queries.load("export")
        self._members: list[MemberDigest] = []
        self._missing: list[Missing] = []
        self._is_missing = False
        self._digest = sha256()
        self._counts = {"view": 0, "log": 0, "missing": 0}
        self._bytes = 0

    def write(self, head: ExportedHead, log: LogIdentity) -> Exported:
        document = asyncapi()
        self._add(README, _ABOUT)
        self._add(ASYNCAPI, files("milepost.schemas").joinpath("documents", "asyncapi.json").read_bytes())
        self._add_history()
        self._add_states(head, log)
        count = self._counts["view"] + self._counts["log"]
        manifest = Manifest(
            format=FORMAT,
            milepost=version("milepost"),
            asyncapi=str(document["info"]["version"]),
            tenant_id=self._request.tenant_id,
            session_id=self._request.session_id,
            log=ExportedLog(log.cluster_id, log.topic, log.topic_id, log.partitions),
            head=head,
            events=head.last_seq,
            members=self._members,
            states=StatesDigest(count, self._bytes, self._digest.hexdigest()),
            missing=self._missing,
        )
        text = manifest_text(manifest)
        self._archive.add(MANIFEST, text)
        self._archive.add(CHECKSUM, checksum_of(text))
        self._archive.finish()
        counts = self._counts
        return Exported(
            head.last_seq, bytes.fromhex(head.chain), counts["view"], counts["log"], counts["missing"], self._bytes
        )

    def _add(self, name: str, content: bytes) -> None:
        self._archive.add(name, content)
        self._members.append(MemberDigest(name, len(content), sha256(content).hexdigest()))

    def _add_history(self) -> None:
        size, whole = 0, sha256()
        with self._archive.growing(HISTORY) as stream, raw_cursor(self._connection, "export_history") as cursor:
            cursor.itersize = _AT_ONCE
            cursor.execute(self._statements["history"], self._names)
            for row in cursor:
                line = line_of(entry(row))
                size += len(line)
                whole.update(line)
                stream.write(line)
        self._members.append(MemberDigest(HISTORY, size, whole.hexdigest()))

    def _add_states(self, head: ExportedHead, log: LogIdentity) -> None:
        records: LogRecords | None = None
        try:
            with self._connection.cursor("export_checkpoints", binary=True) as cursor:
                cursor.itersize = _AT_ONCE
                cursor.execute(self._statements["checkpoints"], self._names)
                for seq, digest, event_id, offset, is_live in cursor:
                    state = self._from_view(seq, digest) if is_live else None
                    if state is None and self._request.kafka is not None and records is None:
                        records = LogRecords(self._request.kafka, log, head.partition, timeout=self._request.timeout)
                    if state is not None:
                        self._add_state(seq, digest, state, "view")
                    else:
                        self._add_from_log(records, seq, digest, event_id, offset)
                    if self._tell is not None:
                        self._tell(seq, head.last_seq)
        finally:
            if records is not None:
                records.close()

    def _from_view(self, seq: int, digest: bytes) -> bytes | None:
        """The state in the view; None for one that is not the published one, so that the log is asked."""
        row = self._connection.execute(self._statements["state"], [*self._names, seq], binary=True).fetchone()
        state = bytes(row[0]) if row is not None else b""
        return state if sha256(state).digest() == digest else None

    def _add_from_log(self, records: LogRecords | None, seq: int, digest: bytes, event_id: bytes, offset: int) -> None:
        if records is None:
            self._lack(seq, "not in the view, and the log was not asked")
            return
        try:
            event = records.read(offset).event
        except WrongLog:
            self._lack(seq, "not in the view, and the log does not hold it any more")
            return
        if event is None or event.state is None or event.event_id != event_id or event.sha256 != digest:
            self._lack(seq, "not in the view, and what the log holds there is another record")
            return
        self._add_state(seq, digest, event.state, "log")

    def _add_state(self, seq: int, digest: bytes, state: bytes, source: str) -> None:
        self._archive.add(state_name(seq), state)
        self._digest.update(b"%d %b\n" % (seq, digest.hex().encode()))
        self._counts[source] += 1
        self._bytes += len(state)
        self._is_missing = False

    def _lack(self, seq: int, why: str) -> None:
        self._counts["missing"] += 1
        last = self._missing[-1] if self._is_missing else None
        if last is not None and last.why == why:
            self._missing[-1] = msgspec.structs.replace(last, last_seq=seq)
        else:
            self._missing.append(Missing(seq, seq, why))
        self._is_missing = True
