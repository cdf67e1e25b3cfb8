"""A materializer that writes everything but the states, which wait on the shelf until they are known to survive."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from milepost.consumer import queries
from milepost.consumer.database import Connection
from milepost.consumer.heads import Head, SessionKey
from milepost.consumer.integrity.keys import Keyring
from milepost.consumer.lookup import load_heads
from milepost.consumer.materializer import Materializer
from milepost.consumer.plan import HistoryRow, Plan
from milepost.consumer.records import LogRecord
from milepost.consumer.replay.shelf import Shelf
from milepost.consumer.retention import Live, Policies
from milepost.consumer.write import copy_checkpoints, write_plan

_WRITE_ROWS: Final = 500


class Rebuilder(Materializer):
    """Rebuilds a view. Its rows are complete only after `finish`, and what that says is missing was restored."""

    def __init__(self, database: str, topic: str, shelf: Shelf, keys: Keyring | None = None) -> None:
        super().__init__(database, topic, keys)
        self._shelf = shelf
        self.written = 0
        """States written so far."""

    def finish(self) -> None:
        """Write the states that are on the shelf: they survive."""
        rows = self._shelf.drain()
        while page := list(islice(rows, _WRITE_ROWS)):
            self.write_states(page)

    def write_states(self, rows: Sequence[HistoryRow]) -> None:
        """Write live checkpoints in a transaction of their own."""
        with self._translated(), self.connection().transaction():
            copy_checkpoints(self.connection(), rows, self._signer)
        self.written += len(rows)

    def _load_heads(
        self, connection: Connection, keys: set[SessionKey], records: Sequence[LogRecord], policies: Policies
    ) -> dict[SessionKey, Head]:
        known = {key for key in keys if self._heads.get(key) is not None}
        heads = load_heads(connection, self._heads, keys, records, windows=False, signer=self._signer)
        stored = [head for key, head in heads.items() if key not in known and head.live_checkpoints]
        if stored:
            columns = [
                [head.tenant_id for head in stored],
                [head.session_id for head in stored],
                [max(head.deleted_seq or 0, head.pruned_seq) for head in stored],
                [policies.of(head.tenant_id, head.session_id).newest for head in stored],
            ]
            rows = connection.execute(queries.load("replay")["windows"], columns, binary=True)
            for tenant_id, session_id, *live in rows:
                heads[tenant_id, session_id].window.append(Live(*live))
        return heads

    def _write_plan(
        self, connection: Connection, plan: Plan, rows: Iterable[HistoryRow], heads: dict[SessionKey, Head]
    ) -> int:
        return write_plan(connection, plan, rows, heads, self._topic, states=False, signer=self._signer)

    def _committed(self, plan: Plan) -> None:
        self._shelf.take(plan)
