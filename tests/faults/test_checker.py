"""Who checks the checker: each bug that the product must not have, planted into its consumers, is called by its name."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from milepost.consumer import queries
from tests.chaos import planted
from tests.chaos.check import unlike_model
from tests.chaos.servers import Servers
from tests.chaos.traffic import checkpoint, made
from tests.chaos.world import ONE_EACH, World
from tests.faults.contest import Contest
from tests.model import model


def test_a_position_that_is_moved_before_the_rows_loses_them(servers: Servers, tmp_path: Path) -> None:
    with World(servers, tmp_path, [1], bug=planted.POSITION_FIRST) as world:
        world.wait_ready()
        point = world.consumers[0].postgres.at_commit("after")
        world.publish(checkpoint("acme", session_id) for session_id in ONE_EACH)
        assert point.reached.wait(10)
        world.settle()
        assert any("is missing in history of the view" in each for each in world.differences())


def test_without_compare_and_set_a_late_writer_repeats_what_another_wrote(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    contest = Contest(database)
    records = contest.append([checkpoint("acme", "s", number) for number in range(3)])
    with closing(contest), closing(contest.writer()) as late:
        contest.finish(records)
        assert list(unlike_model(database, model(records), newest=50)) == []
        monkeypatch.setattr(queries, "load", queries.load)  # so that what is planted is undone
        planted.plant(planted.NO_COMPARE)
        late.apply(records[:2])
    found = list(unlike_model(database, model(records), newest=50))
    assert any("is too much in history" in each for each in found), found


def test_an_offset_of_the_group_repeats_what_was_applied(servers: Servers, tmp_path: Path) -> None:
    with World(servers, tmp_path, [1], bug=planted.GROUP_OFFSET) as world:
        child = world.consumers[0].child
        world.publish(made(random.Random(4), 60))
        world.settle()
        child.signal(signal.SIGKILL)
        child.wait()
        world.publish(made(random.Random(5), 20))
        child.start()
        world.settle()
        assert any("is too much in history of the view" in each for each in world.differences())


@pytest.mark.parametrize("bug", planted.BUGS)
def test_what_is_planted_fits_the_product(bug: str) -> None:
    """Planting checks that what it replaces is there; in a process of its own, since it stays planted."""
    code = f"from tests.chaos import planted; planted.plant({bug!r})"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
