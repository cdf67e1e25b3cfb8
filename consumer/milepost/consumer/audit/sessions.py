"""All sessions in the order of their keys: history, heads and live rows walked through at once, each by one cursor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import groupby
from operator import itemgetter

from milepost.consumer.audit.findings import ABSENT, PRESENT
from milepost.consumer.audit.rows import HeadRow, LiveRow, Row, Stream, entry, read
from milepost.consumer.audit.session import Rules, SessionCheck
from milepost.consumer.database import Connection
from milepost.consumer.heads import SessionKey
from milepost.consumer.integrity import CheckpointFacts, HeadFacts, checkpoint_facts, head_facts
from milepost.consumer.integrity.facts import CHECKPOINT_FACTS, HEAD_FACTS, UnreadableError

Tell = Callable[[int], None]
"""Told how many more rows were read."""

_SESSION = itemgetter(0, 1)


class Sessions:
    """Verifies every session, or those that have rows from `since` on."""

    def __init__(self, connection: Connection, rules: Rules, since: list[int] | None, tell: Tell) -> None:
        self._rules = rules
        self._tell = tell
        self.rows: Counter[str] = Counter()
        """How many rows of each table were read."""
        statements = ("history", "heads", "checkpoints")
        parameters: tuple[list[list[int]], ...] = ([], [], [])
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
            for row in rows:
                self._take_orphans(check, session, row[2])
                live = self._live.next
                is_live = live is not None and _session(live.facts) == session and live.facts.seq == row[2]
                check.add(entry(row), self._live.take() if is_live else None)
            self._take_orphans(check, session, None)
            check.finish()
        self._skip_before(None)
        self._rules.outcomes.finish()

    def _take_orphans(self, check: SessionCheck, session: SessionKey, seq: int | None) -> None:
        """Live rows of the session before this seq, or all that are left: they have no event."""
        while (live := self._live.next) is not None and _session(live.facts) == session:
            if seq is not None and live.facts.seq >= seq:
                return
            self._orphan(self._live.take())
            check.add_live(live)

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
