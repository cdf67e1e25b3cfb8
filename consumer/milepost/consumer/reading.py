"""The reads, each defined once: a statement, its parameters, and how rows become the answer.

The synchronous store, the asynchronous one and the twin in memory ask for the same reads; only who gets the rows differs.
A name that breaks the rules of ids cannot be in the view, so that a read of it finds nothing; what is no text at all is a
`TypeError`, a limit below 1 a `ValueError`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, Final, Generic, LiteralString, TypeVar
from uuid import UUID

import msgspec
from psycopg.types.numeric import Int8

from milepost.consumer import queries
from milepost.consumer.rules import Outcome
from milepost.consumer.views import Checkpoint, CheckpointInfo, HistoryEntry, SessionInfo
from milepost.schemas import CorruptState, Kind, Position

Row = tuple[Any, ...]
"""The values of one row in the order of its statement."""
Answer = TypeVar("Answer")

STATEMENTS: Final = {**queries.load("read"), **queries.load("history"), **queries.load("keyed")}
_LAST: Final = 2**63 - 1
_KINDS: Final = {kind.value: kind for kind in Kind}
_OUTCOMES: Final = {outcome.value: outcome for outcome in Outcome}

# by position, which is what makes an answer of many rows quick
_new_checkpoint: Final[Callable[..., Checkpoint]] = Checkpoint
_new_info: Final[Callable[..., CheckpointInfo]] = CheckpointInfo
_new_entry: Final[Callable[..., HistoryEntry]] = HistoryEntry


class Read(msgspec.Struct, Generic[Answer], frozen=True, gc=False):
    """A read: its statement in read.sql, history.sql or keyed.sql, the parameters, and what makes the answer of the rows."""

    name: str
    parameters: dict[str, object]
    answer: Callable[[Sequence[Row]], Answer]
    may_prepare: bool = True
    """Whether one plan is good for all parameters."""

    @property
    def statement(self) -> LiteralString:
        """The SQL."""
        return STATEMENTS[self.name]


def get(tenant_id: str, session_id: str, checkpoint_id: str) -> Read[Checkpoint | None]:
    """One live checkpoint, by its id."""
    parameters = _session(tenant_id, session_id)
    parameters["checkpoint_id"] = _name("checkpoint_id", checkpoint_id)
    return Read("get", parameters, _checkpoint)


def latest(tenant_id: str, session_id: str) -> Read[Checkpoint | None]:
    """The live checkpoint with the highest seq."""
    return Read("latest", _session(tenant_id, session_id), _checkpoint)


def list_session(
    tenant_id: str, session_id: str, run_id: UUID | None, after_seq: int, limit: int | None, newest_first: bool
) -> Read[list[CheckpointInfo]]:
    """The live checkpoints of a session above a seq, all or those of one run."""
    parameters = _session(tenant_id, session_id)
    parameters["run_id"] = run(run_id) if run_id is not None else None
    parameters["after_seq"] = _seq(after_seq)
    parameters["limit"] = _limit(limit)
    return Read("list_newest_first" if newest_first else "list_oldest_first", parameters, _infos)


def list_by_run(tenant_id: str, run_id: UUID, limit: int | None) -> Read[list[CheckpointInfo]]:
    """The live checkpoints of a run, in the order of the log's time."""
    parameters: dict[str, object] = {"tenant_id": _name("tenant_id", tenant_id), "run_id": run(run_id)}
    parameters["limit"] = _limit(limit)
    return Read("list_by_run", parameters, _infos)


def session(tenant_id: str, session_id: str) -> Read[SessionInfo | None]:
    """One session."""
    return Read("session", _session(tenant_id, session_id), _session_info)


def sessions(tenant_id: str, after: str | None, limit: int | None) -> Read[list[SessionInfo]]:
    """A tenant's sessions after one, in byte order of their ids."""
    start = _name("after", after) if after is not None else ""
    if after and not start:
        raise ValueError(f"after: expected a session id, found {after!r:.80}")
    parameters: dict[str, object] = {"tenant_id": _name("tenant_id", tenant_id), "after": start}
    parameters["limit"] = _limit(limit)
    return Read("sessions", parameters, _session_infos)


def history(tenant_id: str, session_id: str, after_seq: int, limit: int | None) -> Read[list[HistoryEntry]]:
    """The events of a session above a seq, with what became of them."""
    parameters = _session(tenant_id, session_id)
    parameters["after_seq"] = _seq(after_seq)
    parameters["limit"] = _limit(limit)
    return Read("history", parameters, _entries)


def published(tenant_id: str, session_id: str, checkpoint_id: str, seq: int | None) -> Read[HistoryEntry | None]:
    """The event that published a checkpoint, live or not: the one of this seq, or the latest that was applied, if any was."""
    parameters = _session(tenant_id, session_id)
    parameters["checkpoint_id"] = _name("checkpoint_id", checkpoint_id)
    parameters["seq"] = _seq(seq) if seq is not None else None
    return Read("published", parameters, lambda rows: _entries(rows)[0] if rows else None)


def log_identity() -> Read[tuple[str, str, str, int] | None]:
    """Cluster, topic, topic id and partitions of the log that the view was built from; None before it has one."""
    return Read(
        "log_identity", {}, lambda rows: (rows[0][0], rows[0][1], rows[0][2], rows[0][3]) if rows[0][3] else None
    )


def next_offset(partition: int) -> Read[tuple[str | None, int | None]]:
    """The topic of the view, None before it has one, and a partition's next offset, None when it has no such partition."""
    return Read("next_offset", {"partition": Int8(partition)}, _topic_and_offset)


def _session(tenant_id: str, session_id: str) -> dict[str, object]:
    return {"tenant_id": _name("tenant_id", tenant_id), "session_id": _name("session_id", session_id)}


def _name(field: str, value: str) -> str:
    """The text itself, or the empty one, which names nothing, for a text that Postgres could not hold."""
    if not isinstance(value, str):
        raise TypeError(f"{field}: expected a str, found {type(value).__name__}")
    # an enum's member is a str as well, which psycopg would send by its name
    text = value if type(value) is str else str.__str__(value)
    if "\0" in text:
        return ""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return ""
    return text


def run(run_id: UUID) -> UUID:
    """A run's id as it is; anything else is a `TypeError`."""
    if not isinstance(run_id, UUID):
        raise TypeError(f"run_id: expected a UUID, found {type(run_id).__name__}")
    return run_id


def _seq(after_seq: int) -> Int8:
    if not isinstance(after_seq, int):
        raise TypeError(f"after_seq: expected an int, found {type(after_seq).__name__}")
    return Int8(max(0, min(after_seq, _LAST)))


def _limit(limit: int | None) -> Int8 | None:
    if limit is None:
        return None
    if not isinstance(limit, int):
        raise TypeError(f"limit: expected an int or None, found {type(limit).__name__}")
    if limit < 1:
        raise ValueError(f"limit: expected 1 or more, or None for all, found {limit}")
    return Int8(min(limit, _LAST))


def _checkpoint(rows: Sequence[Row]) -> Checkpoint | None:
    if not rows:
        return None
    (row,) = rows
    checkpoint = _new_checkpoint(*row[:16], row[16] or {}, Position(*row[17:20]), row[20])
    found = sha256(checkpoint.state).digest()
    if found != checkpoint.sha256:
        raise CorruptState(
            f"checkpoint {checkpoint.checkpoint_id} (tenant {checkpoint.tenant_id}, session {checkpoint.session_id}, "
            f"seq {checkpoint.seq}, from {checkpoint.position}): expected a state with the SHA-256 "
            f"{checkpoint.sha256.hex()}, found {len(checkpoint.state)} bytes with {found.hex()}"
        )
    return checkpoint


def _infos(rows: Sequence[Row]) -> list[CheckpointInfo]:
    return [_new_info(*row[:16], row[16] or {}, Position(*row[17:])) for row in rows]


def _session_info(rows: Sequence[Row]) -> SessionInfo | None:
    return SessionInfo(*rows[0]) if rows else None


def _session_infos(rows: Sequence[Row]) -> list[SessionInfo]:
    return [SessionInfo(*row) for row in rows]


def _entries(rows: Sequence[Row]) -> list[HistoryEntry]:
    return [_new_entry(*entry_values(row)) for row in rows]


def entry_values(row: Row) -> tuple[Any, ...]:
    """The fields of a `HistoryEntry`, of a row that begins with the columns of `history`."""
    kind, outcome, position = _KINDS[row[3]], _OUTCOMES[row[4]], Position(*row[27:30])
    return (*row[:3], kind, outcome, *row[5:25], row[25] or {}, row[26] or {}, position)


def _topic_and_offset(rows: Sequence[Row]) -> tuple[str | None, int | None]:
    return (rows[0][0], rows[0][1]) if rows else (None, None)
