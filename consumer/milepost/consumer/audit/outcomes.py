"""Is each outcome the one that the rules give? Events whose ids may have been seen before are looked up, many at once.

As in the consumer: an id above the greatest one of its session is new for certain, so that in the common case nothing is asked.
"""

from __future__ import annotations

from typing import Final

import msgspec

from milepost.consumer import queries
from milepost.consumer.audit.findings import Findings
from milepost.consumer.audit.rows import Entry
from milepost.consumer.database import Connection
from milepost.consumer.heads import Head
from milepost.consumer.rules import Seen, judge

_AT_ONCE: Final = 1_000


class _Waiting(msgspec.Struct, gc=False):
    entry: Entry
    head: Head
    ask_event: bool
    ask_checkpoint: bool


class Outcomes:
    """Judges events anew. Call `finish` at the end."""

    def __init__(self, connection: Connection, findings: Findings) -> None:
        self._connection = connection
        self._findings = findings
        self._waiting: list[_Waiting] = []

    def add(self, entry: Entry, head: Head, *, ask_event: bool, ask_checkpoint: bool) -> None:
        """Judge an event later, one at least of whose ids is to be asked for; `head` is as the events before it left it."""
        then = Head(head.tenant_id, head.session_id, head.partition)
        then.deleted_at, then.deleted_seq = head.deleted_at, head.deleted_seq
        self._waiting.append(_Waiting(entry, then, ask_event, ask_checkpoint))
        if len(self._waiting) >= _AT_ONCE:
            self.finish()

    def finish(self) -> None:
        """Judge those that wait."""
        waiting, self._waiting = self._waiting, []
        numbered = list(enumerate(waiting))
        events = self._ask(
            "same_events", [(n, each.entry, each.entry.event.event_id.hex()) for n, each in numbered if each.ask_event]
        )
        checkpoints = self._ask(
            "same_checkpoints",
            [(n, each.entry, str(each.entry.event.checkpoint_id)) for n, each in numbered if each.ask_checkpoint],
        )
        for number, each in numbered:
            self.judge(each.entry, each.head, events.get(number), checkpoints.get(number))

    def _ask(self, statement: str, wanted: list[tuple[int, Entry, str]]) -> dict[int, Seen]:
        if not wanted:
            return {}
        columns = [
            [number for number, _, _ in wanted],
            [entry.event.tenant_id for _, entry, _ in wanted],
            [entry.event.session_id for _, entry, _ in wanted],
            [entry.seq for _, entry, _ in wanted],
            [name for _, _, name in wanted],
        ]
        rows = self._connection.execute(queries.load("audit")[statement], columns)
        return {number: Seen(*seen) for number, *seen in rows}

    def judge(
        self, entry: Entry, head: Head, same_event: Seen | None = None, same_checkpoint: Seen | None = None
    ) -> None:
        """Judge an event now, by what was found of its ids."""
        if (expected := judge(head, entry.event, same_event, same_checkpoint)) != entry.outcome:
            self._findings.add("history", entry.key, "outcome", expected.value, entry.outcome)
