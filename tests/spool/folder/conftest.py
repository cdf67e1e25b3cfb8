"""Publishers that end with the test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from milepost.producer.testing import MemoryPublisher
from tests.spool.folder.ground import Make


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[MemoryPublisher] = []

    def build(spool: object, *, stalled: bool = False, **options: object) -> MemoryPublisher:
        publisher = MemoryPublisher(spool=spool, **options)  # type: ignore[arg-type]
        made.append(publisher)
        if stalled:
            publisher.stall()
        return publisher

    yield build
    for publisher in made:
        publisher.close(0)
