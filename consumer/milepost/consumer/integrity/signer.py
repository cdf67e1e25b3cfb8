"""What a writer of the view does with its keys: it checks what it reads back, and signs what it writes.

A head that was edited would be signed anew with its session's next event, and a row that was edited can make retention remove
others; so both are checked when they are read, before anything is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from milepost.consumer import queries
from milepost.consumer.database import Connection, scalar
from milepost.consumer.heads import Head
from milepost.consumer.integrity.checks import Finding, Signature, check_head, check_live_set, check_row, unreadable
from milepost.consumer.integrity.facts import (
    CHECKPOINT_FACTS,
    CheckpointFacts,
    HeadFacts,
    UnreadableError,
    checkpoint_facts,
    labels_of,
)
from milepost.consumer.integrity.keys import Keyring
from milepost.consumer.plan import HistoryRow
from milepost.consumer.retention import Live
from milepost.schemas import WrongView

_REKEY: Final = (
    "a view is signed throughout or not at all; to sign it: milepost audit verify --against-log, then "
    "milepost audit rekey --integrity-key FILE --unsigned"
)


class Signer:
    """The keys of a writer, and the topic of its view, which every MAC covers."""

    def __init__(self, keys: Keyring, topic: str) -> None:
        self._keys = keys
        self._topic = topic

    def sign_head(self, head: Head) -> tuple[bytes, bytes]:
        """MAC and key id of a head as it is to be written."""
        return self._keys.sign(facts_of_head(head, self._topic))

    def sign_row(self, row: HistoryRow) -> tuple[bytes, bytes]:
        """MAC and key id of a live checkpoint as it is to be written."""
        return self._keys.sign(facts_of_row(row, self._topic))

    def check_head(self, head: Head, signature: Signature) -> None:
        """Raises `Tampered` for a stored head that was changed, `WrongView` for one that was never signed."""
        if signature.is_absent:
            raise WrongView(
                f"expected the session {head.session_id} of tenant {head.tenant_id} to be signed, found no MAC: {_REKEY}"
            )
        _raise(check_head(self._keys, facts_of_head(head, self._topic), signature))

    def check_window(self, head: Head, rows: Sequence[Sequence[Any]]) -> list[Live]:
        """What retention needs to know of a session's stored rows, as `signed_windows` gives them.

        Raises `Tampered` when they are not the live rows of the head, which was checked.
        """
        found = []
        for row in rows:
            facts = self._checked(row)
            found.append(facts)
        _raise(check_live_set(facts_of_head(head, self._topic), found))
        return [Live(facts.seq, facts.size, facts.log_time, facts.pinned) for facts in found]

    def _checked(self, row: Sequence[Any]) -> CheckpointFacts:
        try:
            facts = checkpoint_facts(self._topic, row)
        except UnreadableError as error:
            raise unreadable(error).error() from None
        _raise(check_row(self._keys, facts, Signature(*row[CHECKPOINT_FACTS:])))
        return facts


def require_unsigned(head: Head, signature: Signature) -> None:
    """Raises `WrongView` for a signed head: who lacks the key would leave a MAC that does not fit."""
    if not signature.is_absent:
        key_id = signature.mac_key.hex() if signature.mac_key is not None else "unknown"
        raise WrongView(
            f"expected no MAC on the session {head.session_id} of tenant {head.tenant_id}, found one of the integrity key "
            f"{key_id}; give the key by --integrity-key FILE or MILEPOST_INTEGRITY_KEY"
        )


def require_same(connection: Connection, has_keys: bool) -> None:
    """Raises `WrongView` when a view is signed and its writer has no key, or the other way round. An empty one is neither."""
    is_signed = scalar(connection, queries.load("materialize")["any_signature"])
    if is_signed is None:
        return
    if is_signed and not has_keys:
        raise WrongView(
            "expected an integrity key, since the view is signed, found none; give it by --integrity-key FILE or "
            "MILEPOST_INTEGRITY_KEY"
        )
    if has_keys and not is_signed:
        raise WrongView(f"expected a signed view, since an integrity key was given, found one without MACs: {_REKEY}")


def facts_of_head(head: Head, topic: str) -> HeadFacts:
    """What the MAC of a head covers."""
    return HeadFacts(
        topic,
        head.tenant_id,
        head.session_id,
        head.partition,
        head.last_seq,
        head.newest_seq,
        head.newest_checkpoint_id,
        head.first_event_time,
        head.last_event_time,
        head.live_checkpoints,
        head.live_bytes,
        head.deleted_at,
        head.deleted_seq,
        head.max_event_id,
        head.max_checkpoint_id or None,
        head.chain,
        head.pruned_seq,
    )


def facts_of_row(row: HistoryRow, topic: str) -> CheckpointFacts:
    """What the MAC of a live checkpoint covers."""
    event, record = row.event, row.record
    return CheckpointFacts(
        topic,
        event.tenant_id,
        event.session_id,
        event.checkpoint_id or "",
        row.seq,
        event.event_id,
        event.parent_id,
        event.run_id,
        event.step,
        event.next_node,
        event.event_time,
        event.framework_version,
        event.schema_version,
        labels_of(event.labels),
        event.pinned,
        event.size,
        event.sha256 or b"",
        record.log_time,
        record.partition,
        record.offset,
    )


def _raise(finding: Finding | None) -> None:
    if finding is not None:
        raise finding.error()
