"""The publisher's fixtures."""

from __future__ import annotations

from tests.producer.conftest import make, proxy

__all__ = ["make", "proxy"]
