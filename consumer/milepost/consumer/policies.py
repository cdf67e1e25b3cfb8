"""Retention policies as an operator sees and sets them. They live in the database, so that every process obeys the same."""

from __future__ import annotations

from typing import Final

import msgspec

from milepost.consumer.database import Connection, scalar
from milepost.schemas import InvalidSetting
from milepost.schemas.ids import id_problem, tenant_problem

LARGEST_NEWEST: Final = 2**31 - 1


class PolicyRow(msgspec.Struct, frozen=True):
    """One policy. Without tenant it is the default, without session a tenant's."""

    tenant_id: str | None
    session_id: str | None
    newest: int


def show(connection: Connection) -> list[PolicyRow]:
    """All policies, the default first, then by tenant and session."""
    rows = connection.execute(
        "select tenant_id, session_id, newest from milepost.retention_policies "
        "order by tenant_id nulls first, session_id nulls first"
    )
    return [PolicyRow(*row) for row in rows]


def set_newest(
    connection: Connection, newest: int, tenant_id: str | None = None, session_id: str | None = None
) -> PolicyRow:
    """Keep so many checkpoints of each session that the policy is for; 1 or more.

    Raises `InvalidSetting` for a number or a name that breaks its rule.
    """
    if not 1 <= newest <= LARGEST_NEWEST:
        raise InvalidSetting(f"newest: expected 1 to {LARGEST_NEWEST}, found {newest}; the newest one always stays")
    if tenant_id is None and session_id is not None:
        raise InvalidSetting("session: expected a tenant beside it")
    if tenant_id is not None and (problem := tenant_problem(tenant_id)) is not None:
        raise InvalidSetting(f"tenant: {problem}")
    if session_id is not None and (problem := id_problem(session_id)) is not None:
        raise InvalidSetting(f"session: {problem}")
    connection.execute(
        "insert into milepost.retention_policies (tenant_id, session_id, newest) values (%s, %s, %s) "
        "on conflict (tenant_id, session_id) do update set newest = excluded.newest, recorded_at = now()",
        [tenant_id, session_id, newest],
    )
    return PolicyRow(tenant_id, session_id, newest)


def default_newest(connection: Connection) -> int:
    """How many checkpoints stay where no narrower policy holds."""
    found = scalar(
        connection,
        "select newest from milepost.retention_policies where tenant_id is null and session_id is null",
    )
    return int(str(found))
