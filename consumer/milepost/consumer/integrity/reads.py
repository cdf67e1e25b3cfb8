"""The reads of a store that has integrity keys: each checks the MACs of head and rows, and that no row is missing or too many.

They ask for what the reads without keys ask for; the answers are the same. What does not fit raises `Tampered`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import NamedTuple, Protocol
from uuid import UUID

from milepost.consumer import reading
from milepost.consumer.integrity.answers import checkpoint_of, info_of, session_of
from milepost.consumer.integrity.checks import (
    Finding,
    Signature,
    check_head,
    check_live_set,
    check_member,
    check_newest,
    check_row,
    unreadable,
)
from milepost.consumer.integrity.facts import (
    CHECKPOINT_FACTS,
    HEAD_FACTS,
    CheckpointFacts,
    HeadFacts,
    UnreadableError,
    checkpoint_facts,
    head_facts,
)
from milepost.consumer.integrity.keys import Keyring
from milepost.consumer.integrity.locating import suspect_head, suspect_live_set, suspect_row
from milepost.consumer.reading import Read, Row
from milepost.consumer.views import Checkpoint, CheckpointInfo, SessionInfo

# a row of keyed.sql: number, topic, session, is_lost, head, mac, mac_key; then number, checkpoint, mac, mac_key, state
_HEAD = 4
_HEAD_END = _HEAD + HEAD_FACTS
_FOUND = _HEAD_END + 2
_ROW = _FOUND + 1
_ROW_END = _ROW + CHECKPOINT_FACTS
_STATE = _ROW_END + 2


class Reads(Protocol):
    """The reads that can be had with keys or without: reading.py, or `KeyedReads`."""

    @property
    def get(self) -> Callable[[str, str, str], Read[Checkpoint | None]]: ...
    @property
    def latest(self) -> Callable[[str, str], Read[Checkpoint | None]]: ...
    @property
    def list_session(
        self,
    ) -> Callable[[str, str, UUID | None, int, int | None, bool], Read[list[CheckpointInfo]]]: ...
    @property
    def list_by_run(self) -> Callable[[str, UUID, int | None], Read[list[CheckpointInfo]]]: ...
    @property
    def session(self) -> Callable[[str, str], Read[SessionInfo | None]]: ...
    @property
    def sessions(self) -> Callable[[str, str | None, int | None], Read[list[SessionInfo]]]: ...


class _Found(NamedTuple):
    facts: CheckpointFacts
    state: bytes | None


class KeyedReads:
    """The reads of reading.py, checked by a keyring. They have its parameters and raise its errors for what is no name."""

    def __init__(self, keys: Keyring) -> None:
        self._keys = keys

    def get(self, tenant_id: str, session_id: str, checkpoint_id: str) -> Read[Checkpoint | None]:
        """One live checkpoint. None only when the session's live checkpoints are all there, and it is none of them."""

        def answer(rows: Sequence[Row]) -> Checkpoint | None:
            head, found = self._session_of(tenant_id, rows)
            if head is None:
                return None
            wanted = [row for row in found if row.state is not None]
            for row in wanted:
                self._check_state(row)
                if (finding := check_member(head, row.facts)) is not None:
                    raise finding.error()
            if wanted:
                return checkpoint_of(wanted[0].facts, wanted[0].state or b"")
            _check_live_set(head, [row.facts for row in found])
            return None

        return Read("keyed_get", reading.get(tenant_id, session_id, checkpoint_id).parameters, answer)

    def latest(self, tenant_id: str, session_id: str) -> Read[Checkpoint | None]:
        """The newest live checkpoint, which is the one that the session's head names."""

        def answer(rows: Sequence[Row]) -> Checkpoint | None:
            head, found = self._session_of(tenant_id, rows)
            if head is None:
                return None
            newest = found[0] if found else None
            if newest is not None:
                self._check_state(newest)
            if (finding := check_newest(head, newest.facts if newest is not None else None)) is not None:
                raise finding.error()
            return checkpoint_of(newest.facts, newest.state or b"") if newest is not None else None

        return Read("keyed_latest", reading.latest(tenant_id, session_id).parameters, answer)

    def list_session(
        self,
        tenant_id: str,
        session_id: str,
        run_id: UUID | None,
        after_seq: int,
        limit: int | None,
        newest_first: bool,
    ) -> Read[list[CheckpointInfo]]:
        """The live checkpoints of a session: all are read and checked, whatever is asked for."""
        plain = reading.list_session(tenant_id, session_id, run_id, after_seq, limit, newest_first)

        def answer(rows: Sequence[Row]) -> list[CheckpointInfo]:
            head, found = self._session_of(tenant_id, rows)
            if head is None:
                return []
            facts = [row.facts for row in found]
            _check_live_set(head, facts)
            run = run_id.bytes if run_id is not None else None
            wanted = [row for row in facts if row.seq > after_seq and (run is None or row.run_id == run)]
            wanted.sort(key=lambda row: row.seq, reverse=newest_first)
            return [info_of(row) for row in wanted[:limit]]

        return Read("keyed_list", plain.parameters, answer)

    def list_by_run(self, tenant_id: str, run_id: UUID, limit: int | None) -> Read[list[CheckpointInfo]]:
        """The live checkpoints of a run: all rows of each session that has one of it are read and checked."""
        plain = reading.list_by_run(tenant_id, run_id, limit)

        def answer(rows: Sequence[Row]) -> list[CheckpointInfo]:
            head_rows = _heads(rows)
            heads = [self._checked_head(tenant_id, row) for row in head_rows]
            found = [self._checked_row(head_rows[0][1], row).facts for row in _rows(rows)]
            by_session: dict[str, list[CheckpointFacts]] = {}
            for facts in found:
                by_session.setdefault(facts.session_id, []).append(facts)
            for head in heads:
                if head is not None:
                    _check_live_set(head, by_session.get(head.session_id, []))
            wanted = [facts for facts in found if facts.run_id == run_id.bytes]
            wanted.sort(key=lambda facts: (facts.log_time, facts.session_id, facts.seq))
            return [info_of(facts) for facts in wanted[:limit]]

        return Read("keyed_list_by_run", plain.parameters, answer)

    def session(self, tenant_id: str, session_id: str) -> Read[SessionInfo | None]:
        """One session."""

        def answer(rows: Sequence[Row]) -> SessionInfo | None:
            head = self._checked_head(tenant_id, rows[0])
            return session_of(head) if head is not None else None

        return Read("keyed_session", reading.session(tenant_id, session_id).parameters, answer)

    def head(self, tenant_id: str, session_id: str) -> Read[HeadFacts | None]:
        """The head of a session, with what only its MAC and the consumer need."""
        parameters = reading.session(tenant_id, session_id).parameters
        return Read("keyed_session", parameters, lambda rows: self._checked_head(tenant_id, rows[0]))

    def sessions(self, tenant_id: str, after: str | None, limit: int | None) -> Read[list[SessionInfo]]:
        """A tenant's sessions after one."""

        def answer(rows: Sequence[Row]) -> list[SessionInfo]:
            heads = [self._checked_head(tenant_id, row) for row in rows]
            return [session_of(head) for head in heads if head is not None]

        return Read("keyed_sessions", reading.sessions(tenant_id, after, limit).parameters, answer)

    def _session_of(self, tenant_id: str, rows: Sequence[Row]) -> tuple[HeadFacts | None, list[_Found]]:
        """The head of the one session that was asked for and the rows that were found, each checked by itself."""
        (head_row,) = _heads(rows)
        head = self._checked_head(tenant_id, head_row)
        found = [self._checked_row(head_row[1], row) for row in _rows(rows)]
        if head is None and found:
            raise _lost(tenant_id, head_row[2], "null").error()
        return head, found

    def _checked_head(self, tenant_id: str, row: Row) -> HeadFacts | None:
        if row[_HEAD] is None:
            if row[3]:
                raise _lost(tenant_id, row[2], "none").error()
            return None
        head = head_facts(row[1], row[_HEAD:_HEAD_END])
        if (finding := check_head(self._keys, head, Signature(*row[_HEAD_END:_FOUND]))) is not None:
            suspect_head(finding, head)
        return head

    def _checked_row(self, topic: str | None, row: Row) -> _Found:
        try:
            facts = checkpoint_facts(topic, row[_ROW:_ROW_END])
        except UnreadableError as error:
            raise unreadable(error).error() from None
        if (finding := check_row(self._keys, facts, Signature(*row[_ROW_END:_STATE]))) is not None:
            suspect_row(finding, facts)
        return _Found(facts, row[_STATE] if len(row) > _STATE else None)

    def _check_state(self, row: _Found) -> None:
        state = row.state or b""
        if (digest := sha256(state).digest()) != row.facts.sha256:
            expected = f"a state with the SHA-256 {row.facts.sha256.hex()}"
            found = f"{len(state)} bytes with {digest.hex()}"
            raise Finding("milepost.checkpoints", row.facts.key, "state", expected, found).error()


def _check_live_set(head: HeadFacts, rows: Sequence[CheckpointFacts]) -> None:
    if (finding := check_live_set(head, rows)) is not None:
        suspect_live_set(finding, head, rows)


def _lost(tenant_id: str, session_id: str, found: str) -> Finding:
    key = {"tenant_id": tenant_id, "session_id": session_id}
    return Finding("milepost.sessions", key, "row", "the head of a session that has events", found)


def _heads(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row[2] is not None]


def _rows(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row[_FOUND] is not None]
