"""Faults of the broker and of Postgres; see tests/faults/matrix.py."""

from __future__ import annotations

import pytest

from tests.chaos.schedule import Fault
from tests.chaos.servers import Servers
from tests.chaos.world import World
from tests.faults.matrix import faults_of, strike_both

SERVERS = faults_of("broker", "postgres")


@pytest.mark.parametrize("fault", SERVERS, ids=str)
def test_view_replay_and_model_agree_after(fault: Fault, servers: Servers, worlds: dict[str, World]) -> None:
    strike_both(fault, servers, worlds)
