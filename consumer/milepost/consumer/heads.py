"""Session heads: what must be known of a session to judge its next event. Read once, then kept while the partition is ours."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable
from typing import Final

import msgspec

from milepost.consumer.chain import START
from milepost.consumer.retention import Window

SessionKey = tuple[str, str]
"""Tenant and session."""

CACHED_SESSIONS: Final = 20_000
CACHED_CHECKPOINTS: Final = 1_000_000
"""In all windows: 156 bytes each, so 156 MB. With 50 in each window both limits are one."""


class Head(msgspec.Struct):
    """A session as its last event left it; the columns of `milepost.sessions`, and the window of retention."""

    tenant_id: str
    session_id: str
    partition: int
    last_seq: int = 0
    newest_seq: int | None = None
    newest_checkpoint_id: str | None = None
    first_event_time: int = 0
    last_event_time: int = 0
    live_checkpoints: int = 0
    live_bytes: int = 0
    deleted_at: int | None = None
    deleted_seq: int | None = None
    max_event_id: bytes = b""
    max_checkpoint_id: str = ""
    chain: bytes = START
    pruned_seq: int = 0
    window: Window = msgspec.field(default_factory=Window)


class HeadCache:
    """The heads that were used last, by their number and by the sum of their windows. What a failed transaction touched
    must be forgotten.
    """

    def __init__(self, limit: int = CACHED_SESSIONS, checkpoints: int = CACHED_CHECKPOINTS) -> None:
        self._limit = limit
        self._checkpoints_limit = checkpoints
        self._heads: OrderedDict[SessionKey, Head] = OrderedDict()
        self._counted: dict[SessionKey, int] = {}
        """How long each window was when it was kept; a batch changes it before that is known here."""
        self.checkpoints = 0
        """The sum of those."""

    def __len__(self) -> int:
        return len(self._heads)

    def get(self, key: SessionKey) -> Head | None:
        """The head, or None when it has to be read."""
        head = self._heads.get(key)
        if head is not None:
            self._heads.move_to_end(key)
        return head

    def keep(self, heads: Iterable[Head]) -> None:
        """Remember heads as a committed transaction left them. The last one stays, however long: the batch had it anyway."""
        counted = self._counted
        for head in heads:
            key = (head.tenant_id, head.session_id)
            length = len(head.window.lives)
            self.checkpoints += length - counted.get(key, 0)
            self._heads[key] = head
            counted[key] = length
        while len(self._heads) > 1 and (len(self._heads) > self._limit or self.checkpoints > self._checkpoints_limit):
            key, _ = self._heads.popitem(last=False)
            self.checkpoints -= counted.pop(key)

    def forget(self, keys: Iterable[SessionKey]) -> None:
        """Forget heads that a transaction changed without committing."""
        for key in keys:
            if self._heads.pop(key, None) is not None:
                self.checkpoints -= self._counted.pop(key)

    def forget_partitions(self, partitions: Collection[int]) -> None:
        """Forget the sessions of partitions that are not ours any more."""
        self.forget([key for key, head in self._heads.items() if head.partition in partitions])

    def clear(self) -> None:
        """Forget everything."""
        self._heads.clear()
        self._counted.clear()
        self.checkpoints = 0
