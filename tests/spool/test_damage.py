"""Whatever happens to a spool's files, nothing is sent that was not published, and nothing is raised."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from milepost.producer.spool.survey import survey
from milepost.producer.testing import MemoryPublisher
from tests.producer.helpers import created

COUNT = 12


def _left() -> dict[str, bytes]:
    """The files that a publisher leaves that ended with its log away; some of its events were confirmed."""
    with tempfile.TemporaryDirectory() as folder:
        publisher = MemoryPublisher(spool=folder)
        for number in range(COUNT):
            if number == 2:
                publisher.stall()
            publisher.publish(created(number, size=number * 17))
        publisher.close(0)
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


LEFT = _left()
STATES = [created(number, size=number * 17).state for number in range(COUNT)]
SIZE = max(map(len, LEFT.values()))
CHANGES = st.lists(
    st.tuples(st.sampled_from(["flip", "cut", "insert", "zero"]), st.integers(0, SIZE), st.integers(0, 255)),
    min_size=1,
    max_size=4,
)


@settings(max_examples=300, deadline=None)
@given(CHANGES)
def test_only_what_was_published_is_sent_in_order(changes: list[tuple[str, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, content in LEFT.items():
            changed = content
            for kind, at, value in changes if content else []:
                changed = _changed(changed, kind, at, value)
            (folder / file).write_bytes(changed)
        survey(folder)
        with MemoryPublisher(spool=folder) as publisher:
            last = publisher.publish(created(99))
        assert last.result(0)
        sent = [record.value for record in publisher.records]
        places = [STATES.index(value) for value in sent[:-1] if value is not None]
        assert places == sorted(set(places))
        assert len(places) == len(sent) - 1
        assert sent[-1] == created(99).state
        assert list(folder.glob("*.spool")) == []


def _changed(content: bytes, kind: str, at: int, value: int) -> bytes:
    if kind == "cut":
        return content[:at]
    if kind == "insert":
        return content[:at] + bytes([value]) * (value % 50) + content[at:]
    if kind == "zero":
        return content[:at] + bytes(len(content[at : at + value])) + content[at + value :]
    return content[:at] + bytes([byte ^ (value or 1) for byte in content[at : at + 1]]) + content[at + 1 :]
