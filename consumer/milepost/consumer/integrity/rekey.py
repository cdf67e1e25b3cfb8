"""Signing a whole view anew: the first key, another one, or none of those before.

Each transaction takes some sessions of one partition and holds that partition, so that no consumer writes them meanwhile. A
session is checked whole before any of it is signed. What carries the new key already is checked and left as it is, so that a
run that was stopped goes on by running it again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from milepost.consumer import queries
from milepost.consumer.database import Connection
from milepost.consumer.heads import SessionKey
from milepost.consumer.integrity.checks import Finding, Signature, check_head, check_live_set, check_row, unreadable
from milepost.consumer.integrity.facts import (
    CHECKPOINT_FACTS,
    HEAD_FACTS,
    CheckpointFacts,
    HeadFacts,
    UnreadableError,
    checkpoint_facts,
    head_facts,
)
from milepost.consumer.integrity.keys import Keyring
from milepost.consumer.operators import record
from milepost.schemas import WrongView

_PAGE: Final = 500
"""Sessions looked up at once; a transaction takes those of one partition."""

_Signed = tuple[CheckpointFacts, Signature]


class Rekeyed(msgspec.Struct):
    """What was done."""

    sessions: int = 0
    """Heads that were checked."""
    checkpoints: int = 0
    """Rows that were checked."""
    sessions_signed: int = 0
    checkpoints_signed: int = 0
    complete: bool = False


class Rekey:
    """Signs every row and head of a view with the first key of a ring. The connection acts as the writer."""

    def __init__(self, connection: Connection, keys: Keyring, *, unsigned: bool = False) -> None:
        """`unsigned`: whether sessions without any MAC are taken as they are."""
        self._connection = connection
        self._keys = keys
        self._unsigned = unsigned
        self._statements = queries.load("rekey")
        self._done = Rekeyed()

    def run(self, stop: Callable[[], bool], tell: Callable[[Rekeyed], None]) -> Rekeyed:
        """Go through all sessions, or until told to stop; `tell` is told how far it is.

        Raises `Tampered` for what does not fit its MAC or its head, `WrongView` for unsigned sessions, unless they were
        allowed, and when somebody without the first key has written meanwhile.
        """
        last = ("", "")
        while page := self._connection.execute(self._statements["page"], [*last, _PAGE]).fetchall():
            by_partition: defaultdict[int, list[SessionKey]] = defaultdict(list)
            for tenant_id, session_id, partition in page:
                by_partition[partition].append((tenant_id, session_id))
            for partition, keys in by_partition.items():
                if stop():
                    return self._done
                with self._connection.transaction():
                    self._sign(partition, keys)
                tell(self._done)
            last = (page[-1][0], page[-1][1])
        self._finish()
        return self._done

    def _finish(self) -> None:
        signing = self._keys.signing_id
        row = self._connection.execute(self._statements["left_over"], [signing, signing]).fetchone()
        heads, rows = row or (0, 0)
        if heads or rows:
            raise WrongView(
                f"expected all to be signed by the key {signing.hex()} now, found {heads} sessions and {rows} checkpoints that "
                "are not: a consumer without it has written meanwhile, or rows have no session; start consumers with the new "
                "key first and run it again, or look with milepost audit verify"
            )
        self._done.complete = True
        with self._connection.transaction():
            record(
                self._connection,
                "rekey",
                {
                    "mac_key": signing.hex(),
                    "sessions": self._done.sessions_signed,
                    "checkpoints": self._done.checkpoints_signed,
                },
            )

    def _sign(self, partition: int, keys: Sequence[SessionKey]) -> None:
        locked = self._connection.execute(self._statements["lock"], [partition]).fetchone()
        topic = locked[0] if locked is not None else None
        names = [[tenant_id for tenant_id, _ in keys], [session_id for _, session_id in keys]]
        found = self._rows(names, topic)
        heads: list[HeadFacts] = []
        rows: list[CheckpointFacts] = []
        was_unsigned = False
        for row in self._connection.execute(self._statements["heads"], names, binary=True).fetchall():
            head, signature = head_facts(topic, row), Signature(*row[HEAD_FACTS:])
            signed = found[head.tenant_id, head.session_id]
            self._check(head, signature, signed)
            was_unsigned = was_unsigned or signature.is_absent
            if signature.mac_key != self._keys.signing_id:
                heads.append(head)
            rows += [facts for facts, of_row in signed if of_row.mac_key != self._keys.signing_id]
            self._done.sessions += 1
            self._done.checkpoints += len(signed)
        self._write(heads, rows)
        if was_unsigned:
            self._connection.execute(self._statements["void_heads"], [partition])

    def _rows(self, names: list[list[str]], topic: str | None) -> defaultdict[SessionKey, list[_Signed]]:
        found: defaultdict[SessionKey, list[_Signed]] = defaultdict(list)
        statement = queries.load("materialize")["signed_windows"]
        for row in self._connection.execute(statement, names, binary=True):
            try:
                facts = checkpoint_facts(topic, row)
            except UnreadableError as error:
                raise unreadable(error).error() from None
            found[facts.tenant_id, facts.session_id].append((facts, Signature(*row[CHECKPOINT_FACTS:])))
        return found

    def _check(self, head: HeadFacts, signature: Signature, rows: Sequence[_Signed]) -> None:
        """A session is signed throughout or not at all, since all of it is written in one transaction."""
        if signature.is_absent and not self._unsigned:
            raise WrongView(
                f"expected the session {head.session_id} of tenant {head.tenant_id} to be signed, found no MAC; if nobody "
                "else could write until now (milepost audit verify --against-log tells), allow it by --unsigned"
            )
        if signature.is_absent:
            checks = [_signed_alone(facts, of_row) for facts, of_row in rows]
        else:
            checks = [check_head(self._keys, head, signature)]
            checks += [check_row(self._keys, facts, of_row) for facts, of_row in rows]
        _raise_first([*checks, check_live_set(head, [facts for facts, _ in rows])])

    def _write(self, heads: Sequence[HeadFacts], rows: Sequence[CheckpointFacts]) -> None:
        if rows:
            columns = [(row.tenant_id, row.session_id, row.seq, *self._keys.sign(row)) for row in rows]
            self._connection.execute(self._statements["sign_rows"], _columns(columns))
        if heads:
            signed = [(head.tenant_id, head.session_id, *self._keys.sign(head)) for head in heads]
            self._connection.execute(self._statements["sign_heads"], _columns(signed))
        self._done.sessions_signed += len(heads)
        self._done.checkpoints_signed += len(rows)


def _signed_alone(facts: CheckpointFacts, signature: Signature) -> Finding | None:
    if signature.is_absent:
        return None
    return Finding("milepost.checkpoints", facts.key, "mac", "no MAC, since its session's head has none", "one")


def _raise_first(findings: Iterable[Finding | None]) -> None:
    for finding in findings:
        if finding is not None:
            raise finding.error()


def _columns(rows: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]
