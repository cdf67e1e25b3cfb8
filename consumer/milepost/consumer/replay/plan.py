"""What a replay was asked for, as the target remembers it: the same request goes on with what was begun, another is refused."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from milepost.consumer import queries
from milepost.consumer.database import Connection, scalar
from milepost.consumer.log_errors import REBUILD
from milepost.consumer.policies import PolicyRow, set_policy, show
from milepost.consumer.retention import DEFAULT_NEWEST
from milepost.schemas import WrongView


class ReplayRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Where from, where to, and how."""

    kafka: str
    topic: str
    database: str
    """The target."""
    processes: int = 1
    newest: int | None = None
    """The default policy; None for 50, or for what `policies` says."""
    policies: tuple[PolicyRow, ...] | None = None
    """The policies of another view, taken over."""
    until: Mapping[int, int] | None = None
    """The log as it was at these offsets; None for its end as it is at the start."""
    tenant_id: str | None = None
    """This tenant's records alone."""
    session_id: str | None = None
    """This session's of the tenant alone."""
    integrity_keys: tuple[str, ...] = ()
    """Files of integrity keys, the one that signs first."""
    follow: bool = False
    """Whether the view is then continued: a replay that is complete will do."""
    accept_missing: bool = False
    """Whether a log that lost its beginning will do."""


class ReplayState(msgspec.Struct, frozen=True):
    """What stands in `milepost.view.replay`."""

    until: dict[int, int]
    """Where the log ended for this replay."""
    is_cut: bool
    """Whether that was an earlier end than the log's own."""
    tenant_id: str | None = None
    """The view holds this tenant's events alone; None for all."""
    session_id: str | None = None
    missing: int = 0
    """Records that were gone from the log's beginning."""
    complete: bool = False


def stored(connection: Connection) -> ReplayState | None:
    """What replay the view comes from; None for a view that was always live. Raises `WrongView` when nobody can tell."""
    text = scalar(connection, queries.load("replay")["state"])
    try:
        return msgspec.json.decode(str(text), type=ReplayState) if text is not None else None
    except msgspec.DecodeError as error:
        raise WrongView(
            f"expected in milepost.view.replay what milepost replay was asked for, found {str(text)[:200]} ({error}): it was "
            f"changed by hand; {REBUILD}"
        ) from None


def store(connection: Connection, state: ReplayState) -> None:
    """Remember what was asked for, or that it is complete."""
    connection.execute(queries.load("replay")["begin"], [msgspec.json.encode(state).decode()])


def begin(
    connection: Connection, request: ReplayRequest, ends: Mapping[int, int], missing: int
) -> tuple[ReplayState, bool]:
    """The state of a replay that begins now or goes on, and whether it goes on.

    Raises `WrongView` when the database holds a view that is no unfinished replay of the same request.
    """
    asked = dict(request.until) if request.until is not None else None
    before = stored(connection)
    part = (request.tenant_id, request.session_id)
    if before is not None and (before.tenant_id, before.session_id) == part:
        if before.complete and request.follow:
            return before, True
        if not before.complete and (asked is None or _goes_as_far(asked, before.until)):
            _require_policies(connection, request)
            state = before if asked is None else msgspec.structs.replace(before, until=asked)
            store(connection, state)
            return state, True
    if before is not None or not scalar(connection, queries.load("replay")["is_fresh"]):
        what = "a replay of another part of the log" if before is not None and not before.complete else "a view already"
        raise WrongView(
            f"expected an empty database, or an unfinished replay of the same log, found {what}; name another, or continue "
            "a complete view with: milepost consume"
        )
    state = ReplayState(asked if asked is not None else dict(ends), asked is not None, *part, missing)
    with connection.transaction():
        # a target that was set up before has policies of its own
        connection.execute(queries.load("replay")["no_policies"])
        for policy in _wanted(request):
            set_policy(connection, policy)
        # nothing has been measured by others
        connection.execute(queries.load("replay")["measured"])
        store(connection, state)
    return state, False


def _goes_as_far(asked: Mapping[int, int], before: Mapping[int, int]) -> bool:
    """A view to be compared with may have moved on since: then the replay goes on to where it is now."""
    return asked.keys() == before.keys() and all(asked[partition] >= before[partition] for partition in before)


def _wanted(request: ReplayRequest) -> tuple[PolicyRow, ...]:
    """The policies that were asked for."""
    taken = request.policies or ()
    if request.newest is None and request.policies is not None:
        return taken
    default = PolicyRow(None, None, request.newest or DEFAULT_NEWEST, None, None)
    return (default, *(policy for policy in taken if policy.tenant_id is not None))


def _require_policies(connection: Connection, request: ReplayRequest) -> None:
    """Raise `WrongView` when a replay that goes on was begun under other policies."""
    found, wanted = set(show(connection)), set(_wanted(request))
    if found != wanted:
        raise WrongView(
            f"expected the policies that the replay was begun with ({_listed(found)}), found others asked for "
            f"({_listed(wanted)}): run it with those, or begin anew in an empty database"
        )


def _listed(policies: set[PolicyRow]) -> str:
    ordered = sorted(policies, key=lambda policy: (policy.tenant_id or "", policy.session_id or ""))
    shown = [
        f"{policy.tenant_id or 'all'}/{policy.session_id or '*'}: newest {policy.newest}" for policy in ordered[:5]
    ]
    return ", ".join(shown) + (f" and {len(ordered) - 5} more" if len(ordered) > 5 else "")


def require_whole(connection: Connection) -> None:
    """Raise `WrongView` for a view that consuming cannot continue: one whose states are still missing, or a part of the log."""
    state = stored(connection)
    if state is None:
        return
    if state.tenant_id is not None:
        part = f"tenant {state.tenant_id}" + (f", session {state.session_id}" if state.session_id is not None else "")
        raise WrongView(
            f"expected a view of the whole log, found one of {part} alone: it cannot be continued, only read"
        )
    if not state.complete:
        raise WrongView(
            "expected a complete view, found a replay that was not finished; run the same milepost replay again"
        )
