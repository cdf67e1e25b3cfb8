"""Rebuilding a view from the log."""

from milepost.consumer.replay.plan import ReplayRequest
from milepost.consumer.replay.run import ReplayReport, replay

__all__ = ["ReplayReport", "ReplayRequest", "replay"]
