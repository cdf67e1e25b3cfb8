"""Retention: which checkpoints of a session stay. A function of the log and the policies alone."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

DEFAULT_NEWEST: Final = 50


class Live(msgspec.Struct, frozen=True, gc=False):
    """What retention needs to know of a live checkpoint."""

    seq: int
    size: int
    """Bytes of the state."""
    log_time: int
    """When the log took it, microseconds since 1970 UTC."""
    pinned: bool


class Window:
    """The newest live checkpoints of a session, oldest first. Pinned ones leave it like others, but are not removed."""

    __slots__ = ("lives", "size")

    def __init__(self) -> None:
        self.lives: deque[Live] = deque()
        """To be changed by the methods alone."""
        self.size = 0
        """Bytes of all its states, kept beside them: a policy asks for it with each event."""

    def __len__(self) -> int:
        return len(self.lives)

    def __iter__(self) -> Iterator[Live]:
        return iter(self.lives)

    def append(self, live: Live) -> None:
        """Add a newer one."""
        self.lives.append(live)
        self.size += live.size

    def extend(self, lives: Iterable[Live]) -> None:
        """Add newer ones, oldest first."""
        for live in lives:
            self.append(live)

    def clear(self) -> None:
        """A deletion: nothing before it is live."""
        self.lives.clear()
        self.size = 0


class Policy(msgspec.Struct, frozen=True):
    """How much of a session stays. Whatever the limits, the newest checkpoint does, and so do pinned ones."""

    newest: int = DEFAULT_NEWEST
    """How many of the newest checkpoints stay."""
    max_age: int | None = None
    """Microseconds before the session's newest checkpoint, by the log's time."""
    max_bytes: int | None = None
    """What the states of the window may add up to."""

    def prune(self, window: Window, limit: int = sys.maxsize) -> list[Live]:
        """Take what does not stay out of the window and return what is to be removed, oldest first, at most `limit`."""
        lives = window.lives
        if len(lives) <= self.newest and self.max_age is None and self.max_bytes is None:
            return []
        removed: list[Live] = []
        newest = self.newest
        while len(lives) > 1 and (len(lives) > newest or self._is_over(window)) and len(removed) < limit:
            oldest = lives.popleft()
            window.size -= oldest.size
            if not oldest.pinned:
                removed.append(oldest)
        return removed

    def may_prune(self, live_checkpoints: int) -> bool:
        """Whether a session with so many live checkpoints may have some to remove."""
        return live_checkpoints > self.newest or self.max_age is not None or self.max_bytes is not None

    def _is_over(self, window: Window) -> bool:
        """Whether the window is over another limit than that of the number."""
        if self.max_bytes is not None and window.size > self.max_bytes:
            return True
        if self.max_age is None:
            return False
        lives = window.lives
        return lives[0].log_time < lives[-1].log_time - self.max_age


class Policies:
    """The policies of a view at one moment: the narrowest that fits a session holds."""

    def __init__(self, version: int, policies: Mapping[tuple[str | None, str | None], Policy]) -> None:
        self.version = version
        self._policies = dict(policies)
        self._default = self._policies.get((None, None), Policy())
        self.has_overrides = any(key != (None, None) for key in self._policies)
        self.newest_anywhere = max((policy.newest for policy in self._policies.values()), default=DEFAULT_NEWEST)

    def found(self, tenant_id: str, session_id: str) -> tuple[Policy, str | None]:
        """What `of` gives, and whose policy that is: the "session", the "tenant", or None for the default."""
        for key, scope in (((tenant_id, session_id), "session"), ((tenant_id, None), "tenant")):
            if (policy := self._policies.get(key)) is not None:
                return policy, scope
        return self._default, None

    def of(self, tenant_id: str, session_id: str) -> Policy:
        """The session's own policy, else its tenant's, else the default."""
        if not self.has_overrides:
            return self._default
        found = self._policies.get((tenant_id, session_id)) or self._policies.get((tenant_id, None))
        return found or self._default


def policies_of(version: int, rows: Iterable[tuple[str | None, str | None, int, int | None, int | None]]) -> Policies:
    """The policies in rows of tenant, session, newest, max_age in microseconds, max_bytes."""
    return Policies(version, {(row[0], row[1]): Policy(row[2], row[3], row[4]) for row in rows})
