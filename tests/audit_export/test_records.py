"""A record made of a row of history says what the published one said, whoever published it and in whichever mode."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings

from milepost.consumer.audit.export_import import record_of
from milepost.consumer.audit.export_rows import line_of, row_of
from milepost.consumer.audit.rows import Entry, StoredEvent
from milepost.consumer.chain import canonical
from milepost.schemas import Envelope, Event, decode, encode
from tests.fixtures.corpus import Case, corpus
from tests.fixtures.strategies import events

APPLIED = [case for case in corpus("foreign") if "outcome" in case.expect]


def same(event: Envelope) -> bool:
    """Through the row, its line in an export, and the record made of that: the same event, state and all."""
    fields = {name: getattr(event, name) for name in event.__struct_fields__ if name != "state"}
    stored = StoredEvent(**fields, stored_size=event.size)
    entry = Entry(stored, 1, "applied", 0, bytes(32), "topic", 0, 0, 0)
    row = row_of(line_of(entry)[:-1])
    assert row.event() == stored
    found = decode(*record_of(row.event(), event.state))
    assert canonical(found, 1, "applied") == canonical(event, 1, "applied")
    return found == msgspec.structs.replace(event, state=found.state) and found.state == event.state


@settings(max_examples=60)
@given(events())
def test_of_our_own_events(event: Event) -> None:
    encoded = encode(event, source="/runtimes/test")
    headers = [(name, value.encode() if isinstance(value, str) else value) for name, value in encoded.headers]
    assert same(decode(encoded.key, encoded.value, headers))


@pytest.mark.parametrize("case", APPLIED, ids=[case.name for case in APPLIED])
def test_of_foreign_records(case: Case) -> None:
    headers = [(name.decode(), value) for name, value in case.record.headers]
    assert same(decode(case.record.key, case.record.value, headers))


def test_a_state_that_is_not_the_event_s_is_refused() -> None:
    with pytest.raises(ValueError, match="digest_mismatch"):
        record_of(
            StoredEvent(
                kind="checkpoint-created",  # type: ignore[arg-type]
                tenant_id="t",
                session_id="s",
                event_id=bytes(16),
                event_time=0,
                source="/x",
                checkpoint_id="c",
                sha256=bytes(32),
                stored_size=1,
            ),
            b"1",
        )
