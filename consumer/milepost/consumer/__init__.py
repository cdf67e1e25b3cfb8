"""The view: materializing the log into Postgres, and reading it."""

from milepost.consumer.async_store import AsyncCheckpointStore
from milepost.consumer.explaining import Became, ExplainedEntry
from milepost.consumer.logged import LoggedState
from milepost.consumer.rules import Outcome
from milepost.consumer.store import CheckpointStore
from milepost.consumer.views import Checkpoint, CheckpointInfo, HistoryEntry, SessionInfo

__all__ = [
    "AsyncCheckpointStore",
    "Became",
    "Checkpoint",
    "CheckpointInfo",
    "CheckpointStore",
    "ExplainedEntry",
    "HistoryEntry",
    "LoggedState",
    "Outcome",
    "SessionInfo",
]
