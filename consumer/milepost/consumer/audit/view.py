"""What a verification must know of a view before it begins: which log, which part of it, from where, by which policies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from milepost.consumer import queries
from milepost.consumer.audit.partition import PartitionRow
from milepost.consumer.database import Connection, scalar
from milepost.consumer.integrity.facts import moment
from milepost.consumer.log import LogIdentity
from milepost.consumer.log_errors import REBUILD
from milepost.consumer.replay.plan import ReplayState, stored
from milepost.consumer.watch import bound_log
from milepost.schemas import InvalidSetting, Position, WrongView

Tell = Callable[[str, int, int], None]
"""Told a stage, how many more of its rows or records were read, and about how many there are."""


def view_of(connection: Connection, *, whole: bool) -> tuple[LogIdentity, ReplayState | None]:
    """The log of a view, and the replay that it comes from.

    Raises `WrongView` for a view of no log, one that is not seen as a whole, an unfinished replay, and, where it must be `whole`,
    a part of a log.
    """
    if not scalar(connection, queries.load("audit")["sees_all"]):
        raise WrongView(
            "expected a role that sees every tenant's rows, found one that row-level security restricts: connect as the owner of "
            "the tables or as a member of milepost_writer"
        )
    log, state = bound_log(connection), stored(connection)
    if log is None:
        raise WrongView("expected a view of a log, found one that was never filled; run: milepost setup")
    if state is not None and not state.complete:
        raise WrongView(
            "expected a complete view, found a replay that was not finished; run the same milepost replay again"
        )
    if whole and state is not None and state.tenant_id is not None:
        raise WrongView("expected a view of the whole log, found one of a part: a seal is of all of it")
    return log, state


def part_of(state: ReplayState | None) -> bytes | None:
    """The key of the part that a view holds; one that ends in a slash stands for all that begin with it."""
    if state is None or state.tenant_id is None:
        return None
    return f"{state.tenant_id}/{state.session_id or ''}".encode()


def part_note(state: ReplayState | None) -> list[str]:
    """What must be said of a view of a part of a log."""
    if state is None or state.tenant_id is None:
        return []
    part = f"tenant {state.tenant_id}" + (f", session {state.session_id}" if state.session_id is not None else "")
    return [f"the view holds {part} alone, by milepost replay: nothing is said of the rest of the log"]


def starts(since: Sequence[Position], log: LogIdentity, partitions: Sequence[PartitionRow]) -> list[int]:
    """Where to begin in each partition, by its number. Raises `InvalidSetting` for a position that the view has not."""
    found = [0] * log.partitions
    stands = {row.partition: row.next_offset for row in partitions}
    for position in since:
        if position.topic not in ("", log.topic) or position.partition not in stands:
            raise InvalidSetting(
                f"since: expected a position in {log.topic}, 0 to {log.partitions - 1}, found {position}"
            )
        if position.offset > (stand := stands[position.partition]):
            raise InvalidSetting(f"since: expected an offset up to {stand}, where the view stands, found {position}")
        found[position.partition] = position.offset
    return found


def policies_version(connection: Connection) -> int:
    """The version of the policies. Raises `WrongView` when its row is gone."""
    row = connection.execute(queries.load("audit")["versions"], binary=True).fetchone()
    if row is None:
        raise WrongView(
            "expected the version of the retention policies in milepost.retention_version, found no row: it was removed; "
            f"{REBUILD}"
        )
    return int(row[0])


class PolicyActs:
    """When the policies of each scope were changed, by the acts: microseconds since 1970 UTC."""

    def __init__(self, changed: Mapping[tuple[str | None, str | None], int]) -> None:
        self._changed = changed

    def last(self, tenant_id: str, session_id: str, scope: str | None) -> int | None:
        """When another policy may last have held for a session; `scope` is whose policy holds now.

        A change of a wider one does not count: the narrower one has held since it was set.
        """
        scopes: list[tuple[str | None, str | None]] = [(tenant_id, session_id), (tenant_id, None), (None, None)]
        reach = {"session": 1, "tenant": 2}.get(scope or "", 3)
        return max((self._changed[each] for each in scopes[:reach] if each in self._changed), default=None)


def policy_acts(connection: Connection) -> PolicyActs:
    """The acts of a view, one for each scope at most."""
    rows = connection.execute(queries.load("audit")["policy_acts"], binary=True)
    return PolicyActs({(tenant_id, session_id): moment(at) for tenant_id, session_id, at in rows})


class Telling:
    """Tells how far each stage is."""

    def __init__(
        self, connection: Connection, partitions: Sequence[PartitionRow], since: Sequence[int], tell: Tell | None
    ) -> None:
        self._tell = tell
        rows = connection.execute(queries.load("audit")["rows_expected"]).fetchall()
        whole = {str(name).rpartition(".")[2]: int(count) for name, count in rows}
        self.records = sum(max(row.next_offset - since[row.partition], 0) for row in partitions)
        """How many records are to be verified."""
        self._expected = {
            "sessions": sum(whole.get(table, 0) for table in ("history", "sessions", "checkpoints")),
            "positions": whole.get("history", 0) + whole.get("quarantine", 0),
            "log": self.records,
        }

    def told(self, stage: str, more: int) -> None:
        """More rows or records of a stage were read."""
        if self._tell is not None and more:
            self._tell(stage, more, self._expected[stage])
