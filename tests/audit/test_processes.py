"""A verification by several processes on a real log: one snapshot for all, and what becomes of those that end early."""

from __future__ import annotations

import multiprocessing
from importlib import import_module

import pytest

from milepost.consumer.audit import VerifyReport, VerifyRequest, parts, verify
from milepost.consumer.processes import Pool, Stop
from milepost.schemas import MilepostError
from tests.audit.conftest import edit
from tests.audit.test_commands import events
from tests.fixtures.commands import Milepost
from tests.fixtures.publishing import produce
from tests.properties.test_view_laws import set_newest

EVENTS = 60


class Told(Stop):
    """Says stop from the beginning; hears no signals."""

    def __init__(self) -> None:
        """Leaves the handlers of the test run alone."""

    def __call__(self) -> bool:
        return True

    def wait(self, seconds: float) -> None:
        """Nothing more comes."""


@pytest.fixture
def request_of_two(
    milepost: Milepost, kafka_servers: str, topic: str, database: str, monkeypatch: pytest.MonkeyPatch
) -> VerifyRequest:
    """What two processes verify, small as it is."""
    monkeypatch.setattr(import_module("milepost.consumer.audit.verify"), "_RECORDS_FOR_ANOTHER", 1)
    set_newest(database, 3)
    produce(kafka_servers, topic, events(0, EVENTS))
    milepost.run("consume", "--until-caught-up")
    return VerifyRequest(database=database, kafka=kafka_servers, topic=topic, against_log=True, processes=2)


def assert_clean(report: VerifyReport) -> None:
    assert (report.first, report.unchecked, report.verified) == ([], [], True)
    assert report.rows == {"sessions": 7, "checkpoints": 21, "history": EVENTS, "quarantine": 0, "log": EVENTS}


def test_all_see_the_view_as_it_was_when_it_began(
    request_of_two: VerifyRequest, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, int]] = []
    module = import_module("milepost.consumer.audit.verify")

    def run(*arguments: object) -> object:
        edit(database, "delete from milepost.checkpoints", "update milepost.history set chain = sha256('x')")
        return parts.run_parts(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "run_parts", run)
    assert_clean(verify(request_of_two, tell=lambda stage, more, _expected: told.append((stage, more))))
    read = {stage: sum(more for each, more in told if each == stage) for stage, _ in told}
    assert read == {"sessions": EVENTS + 7 + 21, "positions": EVENTS, "log": EVENTS}
    monkeypatch.setattr(module, "run_parts", parts.run_parts)
    found = verify(request_of_two).by_field
    assert (found["checkpoints"], found["history.chain"], found["sessions.live_checkpoints"]) == (21, EVENTS, 7)


def test_one_that_is_killed_is_started_again(request_of_two: VerifyRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[int] = []
    start = Pool._start

    def start_and_kill(pool: Pool[object, object, object], number: int) -> None:
        start(pool, number)
        if not killed:
            process = multiprocessing.active_children()[0]
            process.kill()
            killed.append(process.pid or 0)

    monkeypatch.setattr(Pool, "_start", start_and_kill)
    assert_clean(verify(request_of_two))
    assert len(killed) == 1


def test_told_to_stop_it_says_nothing_of_the_view(request_of_two: VerifyRequest) -> None:
    with pytest.raises(KeyboardInterrupt):
        verify(request_of_two, stop=Told())
    assert multiprocessing.active_children() == []


def test_what_one_cannot_do_ends_all(request_of_two: VerifyRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    module = import_module("milepost.consumer.audit.verify")
    monkeypatch.setattr(module, "_exported", lambda connection: "00000003-0000001B-9")
    with pytest.raises(MilepostError, match="snapshot"):
        verify(request_of_two)
    assert multiprocessing.active_children() == []
