"""Which column was changed, once a MAC did not fit: history holds the same facts, and seldom are both changed alike.

History has no MAC; where it was changed as well, the finding says that the MAC does not fit, and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

import msgspec
from psycopg.types.numeric import Int8

from milepost.consumer.integrity.checks import Finding
from milepost.consumer.integrity.facts import (
    CHECKPOINT_FACTS,
    HEAD_FACTS,
    CheckpointFacts,
    HeadFacts,
    UnreadableError,
    checkpoint_facts,
    head_facts,
)
from milepost.consumer.reading import Read, Row
from milepost.schemas import Tampered

_TIMES = frozenset({"created_at", "log_time", "first_event_time", "last_event_time", "deleted_at"})


class SuspectError(Exception):
    """Something does not fit, and one more read may say what. Whoever runs reads turns it into `Tampered` by `named`."""

    def __init__(
        self, finding: Finding, evidence: Read[Sequence[Row]], look: Callable[[Sequence[Row]], Finding]
    ) -> None:
        super().__init__(finding)
        self.finding = finding
        self.evidence = evidence
        self._look = look

    def named(self, rows: Sequence[Row]) -> Tampered:
        """The error, as exact as the evidence allows."""
        try:
            return self._look(rows).error()
        except UnreadableError:
            return self.finding.error()


def suspect_row(finding: Finding, row: CheckpointFacts) -> NoReturn:
    """Raise what a row's finding means."""
    if finding.field != "mac" or finding.found == "null":
        raise finding.error()
    parameters = _session(row)
    parameters["seq"] = Int8(row.seq)

    def look(rows: Sequence[Row]) -> Finding:
        if not rows:
            return msgspec.structs.replace(
                finding,
                field="row",
                expected="no such row: history has no event of this seq that makes it",
                found="one",
            )
        return _compared(finding, checkpoint_facts(rows[0][CHECKPOINT_FACTS], rows[0]), row)

    raise SuspectError(finding, _read("row_evidence", parameters), look)


def suspect_head(finding: Finding, head: HeadFacts) -> NoReturn:
    """Raise what a head's finding means."""
    if finding.field != "mac" or finding.found == "null":
        raise finding.error()

    def look(rows: Sequence[Row]) -> Finding:
        return _compared(finding, head_facts(rows[0][HEAD_FACTS], rows[0]), head) if rows else finding

    raise SuspectError(finding, _read("head_evidence", _session(head)), look)


def suspect_live_set(finding: Finding, head: HeadFacts, found: Sequence[CheckpointFacts]) -> NoReturn:
    """Raise what it means that rows and head, each genuine, do not go together."""
    if finding.field != "row":
        raise finding.error()
    parameters = _session(head)
    parameters |= {"deleted_seq": Int8(head.deleted_seq or 0), "pruned_seq": Int8(head.pruned_seq)}
    there = {row.seq for row in found}

    def look(rows: Sequence[Row]) -> Finding:
        gone = [(seq, checkpoint_id) for seq, checkpoint_id in rows if seq not in there]
        if not gone:
            return finding
        key = {**head.key, "seq": str(gone[-1][0]), "checkpoint_id": str(gone[-1][1])}
        others = f"; missing as well: {', '.join(f'seq {seq}' for seq, _ in gone[-6:-1])}" if len(gone) > 1 else ""
        return Finding(finding.table, key, "row", "a checkpoint that is live by its session's head", f"none{others}")

    raise SuspectError(finding, _read("live_evidence", parameters), look)


def _read(name: str, parameters: dict[str, object]) -> Read[Sequence[Row]]:
    return Read(name, parameters, lambda rows: rows)


def _session(facts: CheckpointFacts | HeadFacts) -> dict[str, object]:
    return {"tenant_id": facts.tenant_id, "session_id": facts.session_id}


def _compared(finding: Finding, expected: CheckpointFacts | HeadFacts, found: CheckpointFacts | HeadFacts) -> Finding:
    """The finding with the column that was changed; all of them, when there are several."""
    changed = [
        (name, ours, theirs)
        for name in found.__struct_fields__
        if (ours := getattr(expected, name)) != (theirs := getattr(found, name))
    ]
    if not changed:
        return finding
    first, ours, theirs = changed[0]
    others = f"; changed as well: {', '.join(name for name, *_ in changed[1:])}" if len(changed) > 1 else ""
    return msgspec.structs.replace(
        finding, field=first, expected=f"{_shown(first, ours)} as in history", found=_shown(first, theirs) + others
    )


def _shown(name: str, value: object) -> str:
    if isinstance(value, bytes):
        return value.hex()
    if name == "labels" and isinstance(value, tuple):
        return msgspec.json.encode(dict(value)).decode()
    if name in _TIMES and isinstance(value, int):
        return f"{value} microseconds since 1970"
    return "null" if value is None else str(value)
