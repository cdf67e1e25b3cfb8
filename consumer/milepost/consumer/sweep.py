"""After a change of policy: measure every session of our partitions by the new one, a page at a time.

A session is measured at each of its own checkpoints anyway; this is for those that stand still.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from milepost.consumer import queries
from milepost.consumer.database import Connection
from milepost.consumer.heads import Head, HeadCache, SessionKey
from milepost.consumer.integrity.signer import Signer
from milepost.consumer.lookup import load_heads
from milepost.consumer.plan import Known, Plan, Stand, still
from milepost.consumer.retention import Policies
from milepost.consumer.write import write_plan

_PAGE: Final = 500


class Sweep:
    """One way through the sessions. After an error the page that failed is measured again."""

    def __init__(self, policies: Policies, signer: Signer | None = None) -> None:
        self.policies = policies
        self._signer = signer
        self._last: SessionKey = ("", "")
        self.pruned = 0
        """Checkpoints removed so far."""

    def step(self, connection: Connection, cache: HeadCache, positions: Mapping[int, Stand], topic: str) -> bool:
        """Measure the next page in one transaction; False when there was none left.

        Raises `Fenced` when a partition is not ours any more.
        """
        statements = queries.load("materialize")
        page = connection.execute(statements["sessions_to_sweep"], [*self._last, _PAGE]).fetchall()
        if not page:
            connection.execute(statements["swept"], [self.policies.version, list(positions)])
            return False
        keys = {
            (tenant_id, session_id)
            for tenant_id, session_id, partition, live_checkpoints in page
            if partition in positions and self.policies.of(tenant_id, session_id).may_prune(live_checkpoints)
        }
        if keys:
            heads = load_heads(connection, cache, keys, (), signer=self._signer)
            try:
                self._write(connection, heads, positions, topic)
            finally:
                # measured once: not worth a place among those that are in use
                cache.forget(keys)
        self._last = (page[-1][0], page[-1][1])
        return True

    def _write(
        self,
        connection: Connection,
        heads: Mapping[SessionKey, Head],
        positions: Mapping[int, Stand],
        topic: str,
    ) -> None:
        ours = {head.partition for head in heads.values()}
        moves = {partition: still(positions[partition]) for partition in ours}
        plan = Plan(heads, Known({}, {}), self.policies, moves)
        for key, head in heads.items():
            plan.prune(head, key)
        with connection.transaction():
            write_plan(connection, plan, heads, topic, signer=self._signer)
        self.pruned += plan.pruned
