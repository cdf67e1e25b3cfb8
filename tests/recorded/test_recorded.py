"""Logs of earlier versions: this version builds the view from them that they built."""

from __future__ import annotations

from importlib.metadata import version

import pytest

from milepost.consumer import Outcome
from milepost.schemas import Reason
from milepost.schemas.wire import KNOWN_ATTRIBUTES, Kind
from tests.recorded import files
from tests.recorded.record import a_log, rebuild


@pytest.mark.parametrize("recorded", files.versions())
def test_a_recorded_log_gives_the_view_that_it_gave(kafka_servers: str, empty_database: str, recorded: str) -> None:
    records = [files.from_line(line) for line in files.read(files.log_file(recorded))]
    rebuild(kafka_servers, empty_database, records)
    first, *expected = files.read(files.view_file(recorded))
    found = list(files.dump(empty_database))
    # a later version may have more columns, and so another digest
    assert [
        {name: value for name, value in row.items() if name in known}
        for row, known in zip(found, expected, strict=True)
    ] == expected
    if recorded == version("milepost"):
        assert files.digest(empty_database) == first["digest"]


def test_this_version_is_recorded_as_it_records() -> None:
    lines = list(files.read(files.log_file(version("milepost"))))
    assert [files.from_line(line) for line in lines] == a_log()


def test_the_recording_has_everything() -> None:
    _, *rows = files.read(files.view_file(version("milepost")))
    history = [row for row in rows if row["table"] == "history"]
    assert {row["kind"] for row in history} == set(Kind)
    assert {row["outcome"] for row in history} == set(Outcome)
    names = {name for line in files.read(files.log_file(version("milepost"))) for name, _ in line["headers"]}
    assert KNOWN_ATTRIBUTES - names == set()
    reasons = {row["reason"] for row in rows if row["table"] == "quarantine"}
    # too large for a file, or not to be written by Kafka's client, or made by the server alone
    assert set(Reason) - reasons == {
        Reason.STATE_TOO_LARGE,
        Reason.UNREADABLE_HEADERS,
        Reason.REFUSED_BY_POSTGRES,
    }
    checkpoints = {(row["session_id"], row["seq"]) for row in rows if row["table"] == "checkpoints"}
    assert {seq for session_id, seq in checkpoints if session_id == "pruned"} == {"2", "6", "7", "8"}
