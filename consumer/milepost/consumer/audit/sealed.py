"""The view and its log against a seal: is all that was sealed still there, and still the same?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from milepost.consumer.audit.findings import ABSENT, PRESENT, Findings, Key
from milepost.consumer.audit.keys import key_id
from milepost.consumer.audit.partition import PartitionRow
from milepost.consumer.audit.seal import Seal, SealedPartition

_GROWING: Final = ("events", "applied", "duplicates", "stale", "conflicts", "state_bytes")
"""Totals that never become less; `quarantined` does, by a retry."""


class NamedSeal(msgspec.Struct, frozen=True):
    """A seal, and the file it came from."""

    name: str
    seal: Seal


class SealResult(msgspec.Struct):
    """What was found of one seal."""

    name: str
    sealed_at: str
    checked: list[str]
    """What of it holds or not, in words."""
    unchecked: list[str]
    """What could not be checked, and what it needs."""


def check_seal(
    findings: Findings,
    named: NamedSeal,
    keys: Sequence[Ed25519PublicKey],
    partitions: Mapping[int, PartitionRow],
    digests: Mapping[tuple[int, int], bytes],
    beginnings: Mapping[int, int] | None,
) -> SealResult:
    """Check all of a seal; `digests` are those of the log's records below an offset, `beginnings` where the log begins.

    Without `beginnings` the log was not read.
    """
    seal, key = named.seal, {"seal": named.name}
    result = SealResult(named.name, seal.sealed_at, ["signature", "identity of the log", "positions", "totals"], [])
    _check_signature(findings, key, seal, keys)
    if seal.key_id not in map(key_id, keys):
        result.checked.remove("signature")
        result.unchecked.append(f"signature: give the public key {seal.key_id}")
    for first in list(partitions.values())[:1]:
        for field in ("cluster_id", "topic", "topic_id"):
            findings.compare("partitions", {**key, **first.key}, field, getattr(seal, field), getattr(first, field))
    if len(seal.partitions) != len(partitions):
        findings.add("partitions", key, "partition", f"{len(seal.partitions)} partitions", len(partitions))
    stored = recomputed = 0
    for sealed in seal.partitions:
        row = partitions.get(sealed.partition)
        if row is None:
            findings.add("partitions", {**key, "partition": str(sealed.partition)}, None, PRESENT, ABSENT)
        elif _check_position(findings, key, sealed, row):
            found = row.digest if row.next_offset == sealed.next_offset else None
            stored += found is not None
            if found is None:
                found = digests.get((sealed.partition, sealed.next_offset))
                recomputed += found is not None
            _check_digest(findings, key, sealed, found, beginnings, result)
    result.checked += [f"digests of {stored} partitions, as the view holds them"] if stored else []
    result.checked += [f"digests of {recomputed} partitions, recomputed from the log"] if recomputed else []
    return result


def _check_signature(findings: Findings, key: Key, seal: Seal, keys: Sequence[Ed25519PublicKey]) -> None:
    known = {key_id(each): each for each in keys}
    if seal.key_id not in known:
        findings.add("seal", key, "key_id", f"a key that was given ({', '.join(sorted(known))})", seal.key_id)
    elif not seal.is_signed_by(known[seal.key_id]):
        expected = f"the signature of the key {seal.key_id} over the document as it is"
        findings.add("seal", key, "signature", expected, "another: the document was changed after it was signed")


def _check_position(findings: Findings, key: Key, sealed: SealedPartition, row: PartitionRow) -> bool:
    """Whether the partition is as far as it was; also compares its totals."""
    where = {**key, **row.key}
    if row.next_offset < sealed.next_offset:
        expected = f"{sealed.next_offset} or more"
        findings.add("partitions", where, "next_offset", expected, f"{row.next_offset}: an older copy was restored")
        return False
    is_same = row.next_offset == sealed.next_offset
    for field in _GROWING:
        expected, found = getattr(sealed, field), getattr(row, field)
        if found < expected or (is_same and field == "events" and found != expected):
            findings.add("partitions", where, field, f"{expected} or more", found)
    return True


def _check_digest(
    findings: Findings,
    key: Key,
    sealed: SealedPartition,
    found: bytes | None,
    beginnings: Mapping[int, int] | None,
    result: SealResult,
) -> None:
    partition, expected = sealed.partition, sealed.digest
    where = f"partition {partition}: the digest at offset {sealed.next_offset}"
    if found is None:
        result.unchecked.append(f"{where} can be had from the log alone: give --kafka")
    elif found.hex() != expected:
        if (beginnings or {}).get(partition):
            result.unchecked.append(f"{where}: the log has lost its beginning")
        else:
            named = {**key, "partition": str(partition)}
            findings.add("partitions", named, "digest", f"{expected} at offset {sealed.next_offset}", found)
