"""The command line."""

from milepost.consumer.cli.main import main

__all__ = ["main"]
