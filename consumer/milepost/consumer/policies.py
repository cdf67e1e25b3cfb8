"""Retention policies as an operator sees and sets them. They live in the database, so that every process obeys the same."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import msgspec

from milepost.consumer.database import Connection, scalar
from milepost.consumer.operators import introduce
from milepost.schemas import InvalidSetting
from milepost.schemas.ids import id_problem, tenant_problem
from milepost.schemas.wire import MAX_INTEGER

LARGEST_NEWEST: Final = 2**31 - 1
LONGEST_AGE_SECONDS: Final = 100 * 366 * 86_400


class PolicyRow(msgspec.Struct, frozen=True):
    """One policy. Without tenant it is the default, without session a tenant's."""

    tenant_id: str | None
    session_id: str | None
    newest: int
    """How many of the newest checkpoints stay."""
    max_age_seconds: float | None
    """How much older than the session's newest checkpoint one may be, by the log's time."""
    max_bytes: int | None
    """What the states of a session may add up to."""


def show(connection: Connection) -> list[PolicyRow]:
    """All policies, the default first, then by tenant and session."""
    rows = connection.execute(
        "select tenant_id, session_id, newest, extract(epoch from max_age)::float8, max_bytes from milepost.retention_policies "
        "order by tenant_id nulls first, session_id nulls first"
    )
    return [PolicyRow(*row) for row in rows]


def set_policy(connection: Connection, policy: PolicyRow) -> None:
    """Make this the policy of what it names, in place of the one before.

    Raises `InvalidSetting` for a number or a name that breaks its rule.
    """
    _check(policy)
    age = timedelta(seconds=policy.max_age_seconds) if policy.max_age_seconds is not None else None
    with connection.transaction():
        introduce(connection)
        connection.execute(
            "insert into milepost.retention_policies (tenant_id, session_id, newest, max_age, max_bytes) "
            "values (%s, %s, %s, %s, %s) on conflict (tenant_id, session_id) do update "
            "set newest = excluded.newest, max_age = excluded.max_age, max_bytes = excluded.max_bytes, recorded_at = now()",
            [policy.tenant_id, policy.session_id, policy.newest, age, policy.max_bytes],
        )


def _check(policy: PolicyRow) -> None:
    if not 1 <= policy.newest <= LARGEST_NEWEST:
        raise InvalidSetting(
            f"newest: expected 1 to {LARGEST_NEWEST}, found {policy.newest}; the newest one always stays"
        )
    if policy.max_age_seconds is not None and not 0 < policy.max_age_seconds <= LONGEST_AGE_SECONDS:
        raise InvalidSetting(
            f"max_age: expected above 0 and at most {LONGEST_AGE_SECONDS} s, found {policy.max_age_seconds}"
        )
    if policy.max_bytes is not None and not 0 < policy.max_bytes <= MAX_INTEGER:
        raise InvalidSetting(f"max_bytes: expected 1 to {MAX_INTEGER}, found {policy.max_bytes}")
    if policy.tenant_id is None and policy.session_id is not None:
        raise InvalidSetting("session: expected a tenant beside it")
    if policy.tenant_id is not None and (problem := tenant_problem(policy.tenant_id)) is not None:
        raise InvalidSetting(f"tenant: {problem}")
    if policy.session_id is not None and (problem := id_problem(policy.session_id)) is not None:
        raise InvalidSetting(f"session: {problem}")


def set_default(connection: Connection, newest: int) -> None:
    """Change how many checkpoints stay where no narrower policy holds; age and bytes of the default stay as they are."""
    _check(PolicyRow(None, None, newest, None, None))
    with connection.transaction():
        introduce(connection)
        connection.execute(
            "update milepost.retention_policies set newest = %s, recorded_at = now() "
            "where tenant_id is null and session_id is null and newest <> %s",
            [newest, newest],
        )


def default_newest(connection: Connection) -> int:
    """How many checkpoints stay where no narrower policy holds."""
    found = scalar(
        connection,
        "select newest from milepost.retention_policies where tenant_id is null and session_id is null",
    )
    return int(str(found))
