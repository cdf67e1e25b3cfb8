"""What operators see of a running consumer: health, readiness and metrics over HTTP."""

from milepost.consumer.observe.observer import Observer

__all__ = ["Observer"]
