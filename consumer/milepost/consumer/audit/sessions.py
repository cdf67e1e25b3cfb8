"""All sessions in the order of their keys: history, heads and live rows walked through at once, each by one cursor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Final

import msgspec

from milepost.consumer.audit.findings import ABSENT, PRESENT
from milepost.consumer.audit.rows import SEQ, SESSION_ID, TENANT_ID, HeadRow, LiveRow, Row, Stream, entry, read
from milepost.consumer.audit.session import Rules, SessionCheck
from milepost.consumer.database import Connection
from milepost.consumer.heads import SessionKey
from milepost.consumer.integrity import CheckpointFacts, HeadFacts, checkpoint_facts, head_facts
from milepost.consumer.integrity.facts import CHECKPOINT_FACTS, HEAD_FACTS, UnreadableError

Tell = Callable[[int], None]
"""Told how many more rows were read."""

_SESSION: Final = itemgetter(TENANT_ID, SESSION_ID)
_NEVER: Final = 2**63
"""More than any seq."""


class Range(msgspec.Struct, frozen=True):
    """Sessions in the order of their keys, from one on up to another one, which is not among them."""

    begin: SessionKey = ("", "")
    end: SessionKey | None = None
    """None: up to the last one."""

    @property
    def parameters(self) -> list[object]:
        """What the statements need to know of it."""
        tenant_id, session_id = self.end or (None, None)
        return [*self.begin, tenant_id, tenant_id, session_id]


class Sessions:
    """Verifies the sessions in a range, or, whatever the range, those that have rows from `since` on."""

    def __init__(
        self, connection: Connection, rules: Rules, within: Range, since: Sequence[int] | None, tell: Tell
    ) -> None:
        self._rules = rules
        self._tell = tell
        self.rows: Counter[str] = Counter()
        """How many rows of each table were read."""
        statements = ("history", "heads", "checkpoints")
        parameters: tuple[Sequence[object], ...] = (within.parameters,) * 3
        if since is not None:
            statements = ("history_since", "heads_since", "checkpoints_since")
            parameters = ([since], [since], [since, since])
        tables = ("history", "sessions", "checkpoints")
        history, heads, live = (
            read(connection, statement, each, tell=partial(self._count, table))
            for statement, each, table in zip(statements, parameters, tables, strict=True)
        )
        self._history = history
        self._heads = Stream(map(self._head_row, heads))
        self._live = Stream(map(self._live_row, live))

    def run(self) -> None:
        """Read all of it once."""
        for (tenant_id, session_id), rows in groupby(self._history, key=_SESSION):
            session = (tenant_id, session_id)
            self._skip_before(session)
            head = self._heads.next
            is_its = head is not None and _session(head.facts) == session
            check = SessionCheck(self._rules, tenant_id, session_id, self._heads.take() if is_its else None)
            live_seq = self._live_seq(session)
            for row in rows:
                seq = row[SEQ]
                while live_seq < seq:
                    live_seq = self._take_orphan(check, session)
                if live_seq == seq:
                    check.add(entry(row), self._live.take())
                    live_seq = self._live_seq(session)
                else:
                    check.add(entry(row), None)
            while live_seq < _NEVER:
                live_seq = self._take_orphan(check, session)
            check.finish()
        self._skip_before(None)
        self._rules.outcomes.finish()

    def _live_seq(self, session: SessionKey) -> int:
        """The seq of the session's next live row; `_NEVER` when it has no more."""
        live = self._live.next
        return live.facts.seq if live is not None and _session(live.facts) == session else _NEVER

    def _take_orphan(self, check: SessionCheck, session: SessionKey) -> int:
        """A live row of the session that has no event. Gives the seq of the next one."""
        live = self._live.take()
        self._orphan(live)
        check.add_live(live)
        return self._live_seq(session)

    def _skip_before(self, session: SessionKey | None) -> None:
        """Heads and live rows of sessions before this one, or of all that are left: they have no history."""
        while (head := self._heads.next) is not None and (session is None or _session(head.facts) < session):
            self._heads.take()
            self._rules.findings.add("sessions", head.facts.key, None, f"{ABSENT}: it has no event", PRESENT)
        while (live := self._live.next) is not None and (session is None or _session(live.facts) < session):
            self._orphan(self._live.take())

    def _orphan(self, live: LiveRow) -> None:
        self._rules.findings.add("checkpoints", live.facts.key, None, f"{ABSENT}: it has no event", PRESENT)

    def _count(self, table: str, more: int) -> None:
        self.rows[table] += more
        self._tell(more)

    def _head_row(self, row: Row) -> HeadRow:
        return HeadRow(head_facts(self._rules.topic, row[:HEAD_FACTS]), *row[HEAD_FACTS:])

    def _live_row(self, row: Row) -> LiveRow:
        columns, (mac, mac_key, size, sha256) = row[:CHECKPOINT_FACTS], row[CHECKPOINT_FACTS:]
        try:
            facts = checkpoint_facts(self._rules.topic, columns)
        except UnreadableError as error:
            self._rules.findings.add("checkpoints", error.key, error.field, "a JSON object of strings", error.found)
            facts = checkpoint_facts(self._rules.topic, (*columns[:16], None, *columns[17:]))
        return LiveRow(facts, size, sha256, mac, mac_key)


def _session(facts: CheckpointFacts | HeadFacts) -> SessionKey:
    return facts.tenant_id, facts.session_id
