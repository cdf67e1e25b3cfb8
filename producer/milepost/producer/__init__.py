"""Publishing: what a runtime imports."""

from milepost.producer.client import CheckpointPublisher
from milepost.producer.delivery.receipt import Receipt
from milepost.producer.spool.settings import Spool
from milepost.producer.stats import PublisherStats

__all__ = ["CheckpointPublisher", "PublisherStats", "Receipt", "Spool"]
