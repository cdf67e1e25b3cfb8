"""Seals: what a view was at a moment, signed, so that a later restore or a rewritten log shows. docs/audit.md has the form."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from milepost.consumer.audit.keys import key_id, raw
from milepost.consumer.audit.partition import PartitionRow, read_partitions
from milepost.consumer.database import Connection
from milepost.consumer.replay.plan import require_whole
from milepost.consumer.watch import bound_log
from milepost.schemas import InvalidSetting, WrongView

VERSION: Final = 1
_encode: Final = msgspec.json.Encoder(order="sorted").encode


class SealedPartition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A partition as it was."""

    partition: int
    next_offset: int
    digest: str
    """The digest over all records below `next_offset`, in hex: docs/chain.md."""
    events: int
    applied: int
    duplicates: int
    stale: int
    conflicts: int
    quarantined: int
    state_bytes: int


class Seal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The document."""

    version: int = VERSION
    cluster_id: str
    topic: str
    topic_id: str
    partitions: tuple[SealedPartition, ...]
    sealed_at: str
    """RFC 3339, UTC, by the clock of the database."""
    public_key: str
    """The 32 bytes of the Ed25519 key in hex."""
    key_id: str
    signature: str = ""
    """64 bytes in hex, over `canonical`."""

    def canonical(self) -> bytes:
        """What is signed: the document without `signature`, members sorted by name, without white space, in UTF-8."""
        document = msgspec.to_builtins(self)
        del document["signature"]
        return _encode(document)

    def is_signed_by(self, key: Ed25519PublicKey) -> bool:
        """Whether the signature over the content as it is, is this key's."""
        try:
            key.verify(bytes.fromhex(self.signature), self.canonical())
        except (InvalidSignature, ValueError):
            return False
        return True

    def to_json(self) -> bytes:
        """The document as a file, for people to read, too."""
        return msgspec.json.format(_encode(msgspec.to_builtins(self)), indent=1) + b"\n"


def seal_view(connection: Connection, key: Ed25519PrivateKey) -> Seal:
    """The seal of a view, in the open snapshot.

    Raises `WrongView` for a view of no log, of a part of one, or of an unfinished replay.
    """
    require_whole(connection)
    log = bound_log(connection)
    if log is None:
        raise WrongView("expected a view of a log, found one that was never filled; run: milepost setup")
    row = connection.execute("select (extract(epoch from now()) * 1000000)::int8").fetchone()
    moment = datetime.fromtimestamp((row[0] if row is not None else 0) / 1_000_000, UTC)
    public = key.public_key()
    unsigned = Seal(
        cluster_id=log.cluster_id,
        topic=log.topic,
        topic_id=log.topic_id,
        partitions=tuple(_sealed(partition) for partition in read_partitions(connection)),
        sealed_at=moment.isoformat(timespec="microseconds").replace("+00:00", "Z"),
        public_key=raw(public).hex(),
        key_id=key_id(public),
    )
    return msgspec.structs.replace(unsigned, signature=key.sign(unsigned.canonical()).hex())


def read_seal(name: str, content: bytes) -> Seal:
    """A seal out of its document. Raises `InvalidSetting` when it is none, or one of another version."""
    try:
        seal = msgspec.json.decode(content, type=Seal)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidSetting(
            f"seal {name}: expected a document by milepost audit seal, found another: {error}"
        ) from None
    if seal.version != VERSION:
        raise InvalidSetting(f"seal {name}: expected version {VERSION}, found {seal.version}; upgrade milepost")
    return seal


def _sealed(row: PartitionRow) -> SealedPartition:
    return SealedPartition(
        partition=row.partition,
        next_offset=row.next_offset,
        digest=row.digest.hex(),
        events=row.events,
        applied=row.applied,
        duplicates=row.duplicates,
        stale=row.stale,
        conflicts=row.conflicts,
        quarantined=row.quarantined,
        state_bytes=row.state_bytes,
    )
