"""After a change of policy: measure every session of our partitions by the new one, a page at a time.

A session is measured at each of its own checkpoints anyway; this is for those that stand still.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Final

from milepost.consumer import queries
from milepost.consumer.database import Connection
from milepost.consumer.heads import Head, HeadCache, SessionKey
from milepost.consumer.integrity.signer import Signer
from milepost.consumer.lookup import load_heads
from milepost.consumer.plan import Known, Plan, Stand, still
from milepost.consumer.retention import Policies, Window
from milepost.consumer.write import write_plan

_PAGE: Final = 500
"""How many sessions are looked at in one transaction."""
_ROWS: Final = 20_000
"""How many checkpoints it may remove: some tenths of a second, in which the partitions are locked and no events are taken in."""
_ROW_BYTES: Final = 8_192
"""So much of a state costs as much as another row."""


class Sweep:
    """One way through the sessions. After an error the page that failed is measured again.

    A session that has more to remove than one transaction may is measured again, too: what was removed is removed for good,
    whatever comes between the two.
    """

    def __init__(self, policies: Policies, signer: Signer | None = None) -> None:
        self.policies = policies
        self._signer = signer
        self._last: SessionKey = ("", "")
        self.pruned = 0
        """Checkpoints removed so far."""

    def step(self, connection: Connection, cache: HeadCache, positions: dict[int, Stand], topic: str) -> bool:
        """Measure the next page in one transaction, or as much of it as that may hold; False when there was none left.

        Whoever else remembers sessions of these partitions is fenced off: `positions` have new epochs afterwards.
        Raises `Fenced` when a partition is not ours any more.
        """
        statements = queries.load("materialize")
        page = connection.execute(statements["sessions_to_sweep"], [*self._last, _PAGE]).fetchall()
        if not page:
            connection.execute(statements["swept"], [self.policies.version, list(positions)])
            return False
        keys, last = self._cut(page, positions)
        if keys:
            heads = load_heads(connection, cache, keys, (), signer=self._signer)
            try:
                is_whole = self._write(connection, heads, positions, topic)
            finally:
                # measured once: not worth a place among those that are in use
                cache.forget(keys)
            if not is_whole:
                cache.keep(heads.values())
                return True
        self._last = last
        return True

    def _cut(
        self, page: Iterable[tuple[str, str, int, int, int]], positions: Mapping[int, Stand]
    ) -> tuple[set[SessionKey], SessionKey]:
        """The sessions of a page that may have something to remove, as far as one transaction may hold all that they have,
        but at least one; and the last session that is done with them.
        """
        keys: set[SessionKey] = set()
        last, room = self._last, _ROWS
        for tenant_id, session_id, partition, live_checkpoints, live_bytes in page:
            key = (tenant_id, session_id)
            if partition in positions and self.policies.of(*key).may_prune(live_checkpoints):
                room -= live_checkpoints + live_bytes // _ROW_BYTES
                if room < 0 and keys:
                    break
                keys.add(key)
            last = key
        return keys, last

    def _write(
        self,
        connection: Connection,
        heads: Mapping[SessionKey, Head],
        positions: dict[int, Stand],
        topic: str,
    ) -> bool:
        """Whether nothing was left for another transaction."""
        ours = {head.partition for head in heads.values()}
        moves = {partition: still(positions[partition]) for partition in ours}
        plan = Plan(heads, Known({}, {}), self.policies, moves)
        is_whole = True
        for key, head in heads.items():
            limit, before = _limit(head.window), plan.pruned
            plan.prune(head, key, limit)
            is_whole &= plan.pruned - before < limit
        with connection.transaction():
            write_plan(connection, plan, (), heads, topic, signer=self._signer)
        positions.update({partition: move.stand for partition, move in moves.items()})
        self.pruned += plan.pruned
        return is_whole


def _limit(window: Window) -> int:
    """How many of a session's oldest checkpoints one transaction may remove, at least one; pinned ones are not counted."""
    count, room = 0, _ROWS
    for live in window:
        if not live.pinned:
            count += 1
            room -= 1 + live.size // _ROW_BYTES
            if room <= 0:
                return count
    return sys.maxsize
