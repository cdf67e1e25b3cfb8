"""One writer: a consumer that was stopped for longer than the group waits wakes while another owns its partitions."""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Final

from milepost.consumer.database import Connection, connect
from tests.chaos.process import wait_until
from tests.chaos.servers import Servers
from tests.chaos.traffic import made
from tests.chaos.world import Consumer, World

# who moved which position when, as the server saw it; the name is that of the consumer's connection
_AUDIT: Final = """
create table milepost_chaos.moves (
    who text, partition integer, old bigint, new bigint, at timestamptz default clock_timestamp());
create function milepost_chaos.moved() returns trigger language plpgsql security definer as $$
begin
    insert into milepost_chaos.moves (who, partition, old, new)
    values (current_setting('application_name'), new.partition, old.next_offset, new.next_offset);
    return new;
end $$;
create trigger moved after update of next_offset on milepost.partitions
    for each row when (new.next_offset <> old.next_offset) execute function milepost_chaos.moved();
"""
_EVENTS: Final = 40
ROUNDS_OF_A_WORLD: Final = 25


def zombie_rounds(folder: Path, rounds: int, seed: int, tell: Callable[[str], None], bug: str = "") -> list[str]:
    """Run so many rounds on servers of their own; what was wrong, each a sentence. `bug` names one to plant."""
    found: list[str] = []
    chosen = random.Random(seed)
    with Servers(folder / "servers") as servers:
        for first in range(0, rounds, ROUNDS_OF_A_WORLD):
            with World(servers, folder / "worlds", [1, 1], bug=bug) as world:
                watch(world)
                for number in range(first, min(first + ROUNDS_OF_A_WORLD, rounds)):
                    found += [f"round {number + 1}: {each}" for each in one_round(world, chosen)]
                    if (number + 1) % 10 == 0:
                        tell(f"{number + 1} of {rounds} rounds, {len(found)} failures")
                found += world.differences()
    return found


def watch(world: World) -> None:
    """Have the database note who moves positions, and wait until the consumers have their shares."""
    with closing(connect(world.database)) as connection:
        connection.execute(_AUDIT)
    world.wait_ready()


def one_round(world: World, chosen: random.Random) -> list[str]:
    """Stop one of two consumers at a random moment of its work, wake it when the other has gone on; what was wrong."""
    zombie, other = chosen.sample(world.consumers, 2)
    statement = chosen.choice([None, b"BEGIN", b"COMMIT"])
    held = zombie.postgres.at_commit("hold", statement=statement) if statement is not None else None
    zombie.child.mark()
    other.child.mark()
    world.publish(made(chosen, _EVENTS))
    planned = held is not None and held.reached.wait(5)
    zombie.child.signal(signal.SIGSTOP)
    if statement != b"BEGIN":
        # what was sent before it was stopped may still be done; what is not begun is begun when it wakes
        zombie.postgres.forget_commit()
    wait_until(lambda: "assigned partitions 0, 1, 2, 3" in other.child.said(), "the other to take over")
    with closing(connect(world.database)) as connection:
        world.publish(made(chosen, _EVENTS))
        world.settle()
        return _wake(world, zombie, connection, must_be_fenced=statement == b"BEGIN" and planned)


def _wake(world: World, zombie: Consumer, connection: Connection, *, must_be_fenced: bool) -> list[str]:
    woken = _now(connection)
    zombie.child.signal(signal.SIGCONT)
    zombie.postgres.release()
    wait_until(lambda: _assigned(zombie, woken) is not None, "the zombie to be a member again")
    assigned = _assigned(zombie, woken)
    writes = connection.execute(
        "select partition, old, new from milepost_chaos.moves where who = %s and at > %s and at < %s",
        [zombie.name, woken, assigned],
    ).fetchall()
    said = zombie.child.said()
    found = [f"{zombie.name} wrote after it woke and before it was a member again: {writes}"] if writes else []
    if must_be_fenced and "reading its position again" not in said:
        found.append(f"{zombie.name} had planned a batch when it was stopped, and was not fenced: {said}")
    if "gave up partitions" not in said and "reading its position again" not in said:
        found.append(f"{zombie.name} did not say that it had lost its partitions: {said}")
    world.wait_ready()
    return found


def _now(connection: Connection) -> datetime:
    (moment,) = connection.execute("select clock_timestamp()").fetchone() or ()
    assert isinstance(moment, datetime)
    return moment


def _assigned(zombie: Consumer, after: datetime) -> datetime | None:
    """When the consumer said for the first time after a moment that it has partitions."""
    for line in zombie.child.said().splitlines():
        try:
            fields = json.loads(line)
        except ValueError:  # half a line
            continue
        at = datetime.fromisoformat(fields["time"])
        if at > after and fields["message"].startswith("assigned partitions"):
            return at
    return None
