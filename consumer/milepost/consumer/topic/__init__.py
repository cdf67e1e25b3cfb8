"""Copying a log to a wider topic."""

from milepost.consumer.topic.migration import Migration, MigrationRequest, migrate_topic

__all__ = ["Migration", "MigrationRequest", "migrate_topic"]
