"""An export published again: the same events under the same ids, in the same order.

Sent are records made of the columns of history, by the rules of the wire: whoever consumes them comes to the same outcomes, the
same chain and the same states. Where the export lacks states, only what was applied is sent, as far as it is there: what is live
comes out equal, and the chain does not.
"""

from __future__ import annotations

from typing import Any, BinaryIO, Final, cast
from uuid import UUID

import msgspec
from confluent_kafka import Message

from milepost.consumer import kafka
from milepost.consumer.audit.export_archive import ArchiveReader
from milepost.consumer.audit.export_check import ExportCheck, check_export, contents_of, rows
from milepost.consumer.audit.export_rows import ExportedRow, shown_time
from milepost.consumer.audit.rows import StoredEvent
from milepost.consumer.chain import canonical
from milepost.consumer.log import LogIdentity, check_topic, ends, identify
from milepost.consumer.rules import Outcome
from milepost.consumer.topic.copy import Copier
from milepost.schemas import MAX_STATE_BYTES, InvalidRecord, InvalidSetting, Kind, Position, decode
from milepost.schemas.ids import id_problem, session_key, tenant_problem
from milepost.schemas.partitioning import partition_of
from milepost.schemas.wire import Headers

_decode_texts = msgspec.json.Decoder(dict[str, str]).decode
_JSON: Final = b"application/json"


class ImportRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Where to, and under which name."""

    kafka: str
    topic: str
    tenant_id: str | None = None
    """Another tenant than the export's; None for the same."""
    session_id: str | None = None


class Imported(msgspec.Struct, frozen=True):
    """What an import sent."""

    tenant_id: str
    session_id: str
    sent: int
    left_out: int
    """Events that were not sent, since the export lacks states."""
    position: Position | None
    """A view that has taken in the record there has all of them; None when nothing was sent."""


def import_session(request: ImportRequest, stream: BinaryIO) -> Imported | ExportCheck:
    """Check an export and publish it; what does not fit when it fails its check, of which nothing is sent then.

    Returns when the log has all of it. Interrupted and begun again, what was sent before comes twice and changes no state. Raises
    `WrongLog` for a topic that is no log, `InvalidSetting` for a name that breaks the rules, `KafkaUnavailable`.
    """
    _check_names(request)
    checked = check_export(stream)
    if not checked.ok:
        return checked
    client = kafka.admin(request.kafka)
    log = identify(client, request.kafka, request.topic)
    check_topic(client, request.kafka, request.topic)
    reader = ArchiveReader(stream)
    sender = _Sender(request, log, is_complete=not checked.missing)
    try:
        for row, member in rows(reader, contents_of(reader)):
            sender.add(row, reader.read(member, MAX_STATE_BYTES) if member is not None else None)
        sender.flush()
    finally:
        sender.close()
    position = None
    if sender.sent:
        partition = partition_of(session_key(sender.tenant_id, sender.session_id), log.partitions)
        position = Position(log.topic, partition, ends(client, request.kafka, log)[partition] - 1)
    return Imported(sender.tenant_id, sender.session_id, sender.sent, sender.left_out, position)


def record_of(event: StoredEvent, state: bytes | None) -> tuple[bytes, bytes | None, Headers]:
    """Key, value and headers of an event of which history tells. Raises `ValueError` for one that was never valid."""
    key = session_key(event.tenant_id, event.session_id)
    headers: list[tuple[str, bytes | None]] = [
        ("ce_specversion", b"1.0"),
        ("ce_type", f"milepost.{event.kind}.v1".encode()),
        *([("content-type", _JSON)] if event.kind is Kind.CHECKPOINT_CREATED else []),
        ("ce_id", str(UUID(bytes=event.event_id)).encode()),
        ("ce_source", event.source.encode()),
        ("ce_time", shown_time(event.event_time).encode()),
        ("ce_partitionkey", key),
        ("ce_tenantid", event.tenant_id.encode()),
        ("ce_sessionid", event.session_id.encode()),
        *_optional(event),
    ]
    if event.extensions is not None:
        headers += [(f"ce_{name}", value.encode()) for name, value in _decode_texts(event.extensions).items()]
    _check_same(event, key, state, headers)
    return key, state, headers


def _optional(event: StoredEvent) -> Headers:
    texts = {
        "ce_checkpointid": event.checkpoint_id,
        "ce_statesha256": event.sha256.hex() if event.sha256 is not None else None,
        "ce_parentid": event.parent_id,
        "ce_runid": str(UUID(bytes=event.run_id)) if event.run_id is not None else None,
        "ce_step": str(event.step) if event.step is not None else None,
        "ce_nextnode": event.next_node,
        "ce_reason": event.reason,
        "ce_frameworkversion": event.framework_version,
        "ce_schemaversion": str(event.schema_version) if event.schema_version is not None else None,
        "ce_pinned": "true" if event.pinned else None,
        "ce_labels": event.labels.decode() if event.labels is not None else None,
        "ce_publisherid": str(UUID(bytes=event.publisher_id)) if event.publisher_id is not None else None,
        "ce_publisherseq": str(event.publisher_seq) if event.publisher_seq is not None else None,
        "traceparent": event.traceparent,
        "tracestate": event.tracestate,
    }
    return [(name, text.encode()) for name, text in texts.items() if text is not None]


def _check_same(event: StoredEvent, key: bytes, state: bytes | None, headers: Headers) -> None:
    """A consumer must read of the record what history says of it; the rest of the chain hangs on that."""
    try:
        found = decode(key, state, headers)
    except InvalidRecord as fault:
        raise ValueError(f"event {UUID(bytes=event.event_id)}: {fault}") from None
    if canonical(found, 1, "applied") != canonical(event, 1, "applied"):
        raise ValueError(f"event {UUID(bytes=event.event_id)}: expected a record that says the same, found another")


class _Outgoing:
    """A record with the face of a message."""

    def __init__(self, topic: str, key: bytes, value: bytes | None, headers: Headers) -> None:
        self._topic, self._key, self._value, self._headers = topic, key, value, headers

    def topic(self) -> str:
        return self._topic

    def partition(self) -> None:
        return None

    def offset(self) -> None:
        return None

    def key(self) -> bytes:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def headers(self) -> Headers:
        return self._headers

    def timestamp(self) -> tuple[int, int]:
        """Now, for the client; the log has its own clock."""
        return 0, 0


class _Sender:
    def __init__(self, request: ImportRequest, log: LogIdentity, *, is_complete: bool) -> None:
        self._request = request
        self._log = log
        self._is_complete = is_complete
        self._copier = Copier(request.kafka, log.topic)
        self.tenant_id = request.tenant_id or ""
        self.session_id = request.session_id or ""
        self.sent = 0
        self.left_out = 0

    def add(self, row: ExportedRow, state: bytes | None) -> None:
        """Send an event, or leave it out. Raises `InvalidSetting` for one that no log would take."""
        self.tenant_id = self._request.tenant_id or row.tenant_id
        self.session_id = self._request.session_id or row.session_id
        is_lacking = row.kind is Kind.CHECKPOINT_CREATED and state is None
        if is_lacking or not (self._is_complete or row.outcome is Outcome.APPLIED):
            self.left_out += 1
            return
        event = msgspec.structs.replace(row.event(), tenant_id=self.tenant_id, session_id=self.session_id)
        try:
            key, value, headers = record_of(event, state)
        except ValueError as error:
            raise InvalidSetting(f"seq {row.seq}: {error}") from None
        message = cast(Message, cast(Any, _Outgoing(self._log.topic, key, value, headers)))
        self._copier.add(message, partition_of(key, self._log.partitions), _never)
        self._copier.poll()
        self.sent += 1

    def flush(self) -> None:
        """Wait until the log has all of it."""
        self._copier.flush(_never)

    def close(self) -> None:
        """Drop what is still under way."""
        self._copier.close()


def _never() -> bool:
    return False


def _check_names(request: ImportRequest) -> None:
    if request.tenant_id is not None and (problem := tenant_problem(request.tenant_id)) is not None:
        raise InvalidSetting(f"tenant: {problem}")
    if request.session_id is not None and (problem := id_problem(request.session_id)) is not None:
        raise InvalidSetting(f"session: {problem}")
