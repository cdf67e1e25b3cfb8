"""Rounds of faults over a live stack: traffic, faults, healing, the checker; a fresh log and view every so many rounds."""

from __future__ import annotations

import random
import shutil
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import msgspec

from tests.chaos import situations
from tests.chaos.keep import keep
from tests.chaos.process import ERRORS
from tests.chaos.schedule import Round, draw
from tests.chaos.servers import Servers
from tests.chaos.strike import Strike
from tests.chaos.traffic import checkpoint
from tests.chaos.world import ONE_EACH, World

CONSUMERS: Final = (1, 2, 1)
"""Three consumers; the second has two processes."""
PUBLISHERS: Final = 2
ROUNDS_OF_A_WORLD: Final = 12
"""A log grows by some hundred events in a round, and the checker reads all of it."""
_REACHED_SECONDS: Final = 0.7
_HELD: Final = (b"COMMIT", b"BEGIN")
"""Who is stopped with a batch planned and nothing begun is late when it wakes: only compare-and-set keeps it from writing."""
_CATCH_UP_SECONDS: Final = 60.0


class Summary(msgspec.Struct):
    """What a run did."""

    seed: int
    rounds: int = 0
    events: int = 0
    seconds: float = 0.0
    faults: Counter[str] = msgspec.field(default_factory=Counter)
    """How often each fault was done to each target."""
    situations: Counter[str] = msgspec.field(default_factory=Counter)
    fenced: int = 0
    """How often a consumer said that another had moved a position."""
    failures: list[str] = msgspec.field(default_factory=list)
    """Where what was kept of each failed round lies."""

    def add(self, other: Summary) -> None:
        """Count what was done elsewhere meanwhile."""
        self.rounds += other.rounds
        self.events += other.events
        self.faults.update(other.faults)
        self.situations.update(other.situations)
        self.fenced += other.fenced
        self.failures.extend(other.failures)


class Run:
    """Runs rounds until their number is reached, one fails, or it is told to stop."""

    def __init__(self, seed: int, kept: Path, tell: Callable[[Summary, Round], None], bug: str = "") -> None:
        self.summary: Final = Summary(seed)
        self._kept: Final = kept
        self._tell: Final = tell
        self._bug: Final = bug

    def run(self, first: int, rounds: int, *, most_failures: int = 1) -> None:
        """Run rounds of these numbers, on servers of their own."""
        folder = self._kept / "job"
        numbers = list(range(first, first + rounds))
        with Servers.of_a_run(folder) as servers:
            while numbers and len(self.summary.failures) < most_failures:
                numbers = self.run_world(servers, folder, numbers)

    def run_world(self, servers: Servers, folder: Path, numbers: list[int]) -> list[int]:
        """Run some rounds in one world; the numbers of those that are left."""
        done: list[Round] = []
        world = World(servers, folder / "worlds", CONSUMERS, publishers=PUBLISHERS, newest=30, bug=self._bug)
        with world:
            for number in numbers[:ROUNDS_OF_A_WORLD]:
                one = draw(self.summary.seed, number)
                done.append(one)
                found = self._round(servers, world, one)
                self._count(one)
                if found:
                    self.summary.failures.append(str(keep(self._kept, self.summary.seed, done, world, found)))
                self._tell(self.summary, one)
                if found:
                    break
            self.summary.fenced += sum(
                each.log.read_text().count("reading its position again") for each in world.consumers
            )
            self.summary.events += world.log.read
        shutil.rmtree(world.folder)
        return numbers[len(done) :]

    def _round(self, servers: Servers, world: World, one: Round) -> list[str]:
        """One round; what is wrong after it."""
        chosen = random.Random(one.seed)
        alone = len(one.faults) == 1
        strikes = [Strike(each, servers, [world], chosen, alone=alone, held=_HELD) for each in one.faults]
        try:
            self._strike(world, one, strikes, chosen)
            found = world.check(_CATCH_UP_SECONDS)
        except ERRORS as error:
            found = traceback.format_exception(error)
        return [*_problems(strikes), *world.unexpected(), *found]

    def _strike(self, world: World, one: Round, strikes: list[Strike], chosen: random.Random) -> None:
        """Traffic, the faults in the middle of it, and healing."""
        with ExitStack() as healing:
            for strike in strikes:
                healing.callback(strike.heal)
                strike.arm()
            for child, _ in world.publishers:
                child.say(f"{chosen.getrandbits(48)} {one.events}")
            situations.begin(one.situation, world, chosen)
            limit = _REACHED_SECONDS
            for strike in reversed(strikes):
                strike.wait(limit)
                # COMMITs are held for the last that asked for it: those before it would wait in vain
                limit = 0.0 if strike.fault.target != "publisher" else limit
            guest = situations.disturb(one.situation, world)
            if guest is not None:
                healing.callback(guest.leave)
            for strike in strikes:
                strike.hit()
        world.wait_published()
        world.publish(checkpoint("acme", session_id) for session_id in ONE_EACH)

    def _count(self, one: Round) -> None:
        self.summary.rounds += 1
        self.summary.faults.update(str(fault) for fault in one.faults)
        self.summary.situations[one.situation] += 1


def _problems(strikes: list[Strike]) -> list[str]:
    return [problem for strike in strikes for problem in strike.problems]
