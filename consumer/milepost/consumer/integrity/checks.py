"""What does not fit: each check gives a finding, or None. They read nothing and raise nothing."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from milepost.consumer.integrity.facts import CheckpointFacts, HeadFacts, UnreadableError
from milepost.consumer.integrity.keys import Keyring
from milepost.schemas import Tampered


class Finding(msgspec.Struct, frozen=True):
    """One thing that does not fit: where, what was expected, and what was found."""

    table: str
    key: dict[str, str]
    field: str
    """A column; `mac` where no single column can be named, `row` for a row that is missing."""
    expected: str
    found: str

    def error(self) -> Tampered:
        """The error that says so."""
        return Tampered(self.table, self.key, self.field, f"expected {self.expected}, found {self.found}")


class Signature(msgspec.Struct, frozen=True, gc=False):
    """The columns `mac` and `mac_key` of a row."""

    mac: bytes | None
    mac_key: bytes | None

    @property
    def is_absent(self) -> bool:
        """Whether the row is unsigned."""
        return self.mac is None and self.mac_key is None


def check_row(keys: Keyring, row: CheckpointFacts, signature: Signature) -> Finding | None:
    """Whether a row's MAC is that of its columns. The state is bound by its digest: compare the two beside this."""
    return _check_mac("milepost.checkpoints", keys, row, signature)


def check_head(keys: Keyring, head: HeadFacts, signature: Signature) -> Finding | None:
    """Whether a head's MAC is that of its columns."""
    return _check_mac("milepost.sessions", keys, head, signature)


def check_member(head: HeadFacts, row: CheckpointFacts) -> Finding | None:
    """Whether a row whose MAC fits is live by its session's head, whose MAC fits."""
    if head.allows(row):
        return None
    if row.seq > head.last_seq:
        why = f"at most {head.last_seq}, the session's last event"
    elif row.seq <= (head.deleted_seq or 0):
        why = f"more than {head.deleted_seq}, the session's deletion"
    else:
        why = f"more than {head.pruned_seq}, up to which retention removed what is not pinned"
    return Finding("milepost.checkpoints", row.key, "seq", why, str(row.seq))


def check_newest(head: HeadFacts, newest: CheckpointFacts | None) -> Finding | None:
    """Whether the newest row there is, is the newest by the head."""
    if newest is None:
        return _missing(head, head.newest_seq, head.newest_checkpoint_id) if head.newest_seq is not None else None
    if head.newest_seq is None or newest.seq > head.newest_seq:
        expected = f"none above {head.newest_seq or 0}, the newest by the session's head"
        return Finding("milepost.checkpoints", newest.key, "seq", expected, str(newest.seq))
    if newest.seq < head.newest_seq:
        return _missing(head, head.newest_seq, head.newest_checkpoint_id, f"{newest.seq} as the newest one")
    if newest.checkpoint_id != head.newest_checkpoint_id:
        expected = f"{head.newest_checkpoint_id}, the newest by the session's head"
        return Finding("milepost.checkpoints", newest.key, "checkpoint_id", expected, newest.checkpoint_id)
    return None


def check_live_set(head: HeadFacts, rows: Iterable[CheckpointFacts]) -> Finding | None:
    """Whether these rows, whose MACs fit, are all live rows of the head, whose MAC fits, and no other.

    A row that is allowed is one of the live ones, and no two have one seq; so when their number fits, none is missing.
    """
    found = list(rows)
    for row in found:
        if (problem := check_member(head, row)) is not None:
            return problem
    newest = max(found, key=lambda row: row.seq, default=None)
    if (problem := check_newest(head, newest)) is not None:
        return problem
    if len(found) != head.live_checkpoints:
        expected = f"{head.live_checkpoints} live checkpoints, as the session's head says"
        return Finding("milepost.checkpoints", head.key, "row", expected, str(len(found)))
    if (total := sum(row.size for row in found)) != head.live_bytes:
        return Finding(
            "milepost.sessions", head.key, "live_bytes", f"{total}, the sizes of its rows", str(head.live_bytes)
        )
    return None


def unreadable(error: UnreadableError) -> Finding:
    """The finding of a row that holds what the consumer cannot have written."""
    return Finding("milepost.checkpoints", error.key, error.field, "a flat JSON object of strings", error.found)


def _missing(head: HeadFacts, seq: int | None, checkpoint_id: str | None, found: str = "none") -> Finding:
    key = {**head.key, "seq": str(seq), "checkpoint_id": str(checkpoint_id)}
    return Finding("milepost.checkpoints", key, "row", "the newest checkpoint by the session's head", found)


def _check_mac(table: str, keys: Keyring, facts: CheckpointFacts | HeadFacts, signature: Signature) -> Finding | None:
    if signature.mac is None or signature.mac_key is None:
        field = "mac" if signature.mac is None else "mac_key"
        return Finding(table, facts.key, field, "the row to be signed", "null")
    fits = keys.fits(facts, signature.mac, signature.mac_key)
    if fits:
        return None
    if fits is None:
        known = ", ".join(sorted(key_id.hex() for key_id in keys.ids))
        return Finding(table, facts.key, "mac_key", f"a key that was given ({known})", signature.mac_key.hex())
    expected = f"the MAC of the row's columns under the key {signature.mac_key.hex()}"
    return Finding(table, facts.key, "mac", expected, signature.mac.hex())
