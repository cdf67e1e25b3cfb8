"""A batch is planned while its rows are written; what goes wrong in between leaves nothing behind."""

from __future__ import annotations

from contextlib import closing

import pytest

from milepost.consumer.plan import Plan
from milepost.consumer.records import LogRecord
from milepost.schemas import CheckpointCreated
from tests.fixtures.dump import dump
from tests.scale.ground import filled, heads, taken


def event(number: int) -> CheckpointCreated:
    return CheckpointCreated(tenant_id="acme", session_id=f"s{number % 3}", state=b"{}")


@pytest.mark.parametrize("failing", [0, 7, 1_499])
def test_an_error_while_rows_are_on_their_way_undoes_all_of_them(
    database: str, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    log = filled(database, *map(event, range(6)))
    remembered, *batch = [log.append(event(number)) for number in range(1_501)]
    add = Plan.add

    def broken(self: Plan, record: LogRecord) -> None:
        if record is batch[failing]:
            raise ZeroDivisionError
        add(self, record)

    with closing(taken(database)) as consumer:
        consumer.apply([remembered])
        before = dump(database)
        monkeypatch.setattr(Plan, "add", broken)
        with pytest.raises(ZeroDivisionError):
            consumer.apply(batch)
        assert dump(database) == before
        monkeypatch.setattr(Plan, "add", add)
        consumer.apply(batch)
    assert [row[:2] for row in heads(database)] == [("s0", 503), ("s1", 502), ("s2", 502)]
