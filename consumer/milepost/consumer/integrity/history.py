"""Proving a session's history with a key: its rows carry no MAC, but its head does, and the head's chain goes over all of them.

Read page by page: history only grows, so that what the head says is compared with the rows up to its last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from psycopg.types.numeric import Int8

from milepost.consumer.chain import START, extend
from milepost.consumer.integrity.checks import Finding
from milepost.consumer.integrity.facts import HeadFacts, moment
from milepost.consumer.reading import Read, Row
from milepost.schemas import Envelope, Kind

_PAGE: Final = 1_000


class _Stored(Envelope, frozen=True, gc=False, kw_only=True):
    """An event as history keeps it: without its state."""

    stored_size: int

    @property
    def size(self) -> int:
        return self.stored_size


class HistoryProof:
    """The reads of a proof: do `next`, whose answers are taken in by themselves, until it is None."""

    def __init__(self, head: HeadFacts | None) -> None:
        """`head` was checked."""
        self._head = head
        self._chain = START
        self.events = 0
        """How many rows were checked."""
        self.next: Read[None] | None = self._page() if head is not None else None

    def _page(self) -> Read[None] | None:
        head = self._head
        if head is None or self.events == head.last_seq:
            return None
        parameters: dict[str, object] = {
            "tenant_id": head.tenant_id,
            "session_id": head.session_id,
            "after_seq": Int8(self.events),
            "last_seq": Int8(head.last_seq),
            "limit": Int8(_PAGE),
        }
        return Read("keyed_history", parameters, lambda rows: self._took(head, rows))

    def _took(self, head: HeadFacts, rows: Sequence[Row]) -> None:
        for row in rows:
            seq = row[0]
            if seq != self.events + 1:
                raise _missing(head, self.events + 1).error()
            self._chain = extend(self._chain, _event(head, row), seq, row[2])
            self.events = seq
            if self._chain != row[-1]:
                key = {**head.key, "seq": str(seq)}
                expected = f"{self._chain.hex()}, as the columns up to here make it"
                raise Finding("milepost.history", key, "chain", expected, _hex(row[-1])).error()
        if len(rows) < min(_PAGE, head.last_seq - self.events + len(rows)):
            raise _missing(head, self.events + 1).error()
        self.next = self._page()
        if self.next is None and self._chain != head.chain:
            key = {**head.key, "seq": str(self.events)}
            expected = f"{head.chain.hex()}, as the session's head says"
            raise Finding("milepost.history", key, "chain", expected, self._chain.hex()).error()


def _hex(chain: bytes | None) -> str:
    return chain.hex() if chain is not None else "null"


def _missing(head: HeadFacts, seq: int) -> Finding:
    key = {**head.key, "seq": str(seq)}
    return Finding("milepost.history", key, "row", f"{head.last_seq} events, as the session's head says", "none")


def _event(head: HeadFacts, row: Row) -> _Stored:
    return _Stored(
        kind=Kind(row[1]),
        tenant_id=head.tenant_id,
        session_id=head.session_id,
        event_id=row[3],
        event_time=moment(row[4]),
        source=row[5],
        checkpoint_id=row[6],
        parent_id=row[7],
        run_id=row[8],
        step=row[9],
        next_node=row[10],
        reason=row[11],
        framework_version=row[12],
        schema_version=row[13],
        pinned=row[14],
        labels=row[15],
        publisher_id=row[16],
        publisher_seq=row[17],
        traceparent=row[18],
        tracestate=row[19],
        extensions=row[20],
        stored_size=row[21],
        sha256=row[22],
    )
