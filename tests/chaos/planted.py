"""Three bugs that the product must not have, to be planted into a consumer of the tests: who checks the checker?

In a run of pytest, `-p tests.chaos.planted` with the variable set plants one into the consumers that tests run in their process.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Final

from confluent_kafka import TopicPartition

from milepost.consumer import materializer, queries, write
from milepost.consumer.database import Connection
from milepost.consumer.heads import Head, SessionKey
from milepost.consumer.plan import HistoryRow, Plan
from milepost.consumer.reader import LogReader

VARIABLE: Final = "MILEPOST_PLANTED"
POSITION_FIRST: Final = "position-first"
NO_COMPARE: Final = "no-compare-and-set"
GROUP_OFFSET: Final = "group-offset"
BUGS: Final = (POSITION_FIRST, NO_COMPARE, GROUP_OFFSET)
_COMPARES: Final = " and p.next_offset = m.expected"


def plant(name: str) -> None:
    """Change the product in this process; the empty name changes nothing. Raises KeyError for an unknown one."""
    if name:
        {POSITION_FIRST: _position_first, NO_COMPARE: _no_compare, GROUP_OFFSET: _group_offset}[name]()


def _position_first() -> None:
    """The position is moved before the rows are written, in a transaction of its own."""

    def write_plan(
        connection: Connection,
        plan: Plan,
        rows: Iterable[HistoryRow],
        heads: Mapping[SessionKey, Head],
        topic: str,
        **more: Any,
    ) -> int:
        planned = list(rows)
        with write.refusals():
            version = write._move_positions(connection, plan.moves)
            connection.execute("commit")
            connection.execute("begin")
            write.write_rows(connection, plan, planned, heads, topic, **more)
            write._quarantine(connection, plan, topic)
        return version

    _replace(materializer, "write_plan", write_plan)


def _no_compare() -> None:
    """The position is set, whatever it was before."""
    load = queries.load

    def without(name: str) -> Mapping[str, Any]:
        statements = dict(load(name))
        if name == "materialize":
            for each in ("hold_positions", "skip_positions"):
                assert _COMPARES in statements[each]
                statements[each] = statements[each].replace(_COMPARES, "").replace(" and p.epoch = m.epoch", "")
        return statements

    _replace(queries, "load", without)


def _group_offset() -> None:
    """Reading begins at the group's offset, which is committed now and then, and not where the view stands."""
    start = LogReader.start

    def from_group(self: LogReader, positions: Mapping[int, int]) -> None:
        found = self._member.committed([TopicPartition(self._topic, partition) for partition in positions], timeout=10)
        start(self, {each.partition: max(each.offset, 0) for each in found})

    _replace(LogReader, "start", from_group)


def _replace(owner: object, name: str, value: object) -> None:
    assert hasattr(owner, name), f"expected {owner} to have {name}: what is planted must be kept up with the product"
    setattr(owner, name, value)


if __name__ != "__main__" and "PYTEST_VERSION" in os.environ:
    plant(os.environ.get(VARIABLE, ""))
