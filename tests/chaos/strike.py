"""Faults as they are done: armed before the traffic, hit while a COMMIT is held up, healed at the end."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Sequence
from typing import Final, Literal

from milepost.embedded.settings import ServerName
from tests.chaos.consumer import SESSION_SECONDS
from tests.chaos.process import LIMIT_SECONDS, Child, wait_until
from tests.chaos.schedule import Fault, Kind
from tests.chaos.servers import Servers
from tests.chaos.world import Consumer, World
from tests.fixtures.proxy import AtCommit, KafkaProxy, PostgresProxy

_SIGNALS: Final[dict[Kind, int]] = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "term": signal.SIGTERM}
_SLOW_SECONDS: Final = 0.05
_EXIT_SECONDS: Final = 20.0
_COULD_NOT: Final = 3


class Strike:
    """One fault in one or more worlds at the same time."""

    def __init__(
        self,
        fault: Fault,
        servers: Servers,
        worlds: Sequence[World],
        chosen: random.Random,
        *,
        alone: bool = True,
        held: Sequence[bytes] = (b"COMMIT",),
    ) -> None:
        """`alone`: nothing else is broken meanwhile, so that what is told to end must end in time.

        `held`: what a consumer is about to say when it is stopped, one of these.
        """
        self.fault: Final = fault
        self._alone: Final = alone
        self._held: Final = held
        self.problems: Final[list[str]] = []
        """What a process did that it must not do, whatever the view holds."""
        self._servers: Final = servers
        self._chosen: Final = chosen
        self._worlds: Final = worlds
        self._takes_all: Final = fault.target in ("consumers", "broker", "postgres")
        self._points: Final[dict[Consumer, AtCommit]] = {}
        self._victims: Final[list[Consumer]] = []
        self._publishers: Final[list[tuple[Child, KafkaProxy]]] = []
        if fault.target == "publisher":
            self._publishers.extend([chosen.choice(world.publishers) for world in worlds if world.publishers])
        elif self._takes_all:
            self._victims.extend([each for world in worlds for each in world.consumers])

    def arm(self) -> None:
        """Before the traffic: say what becomes of everybody's next COMMIT."""
        what: Literal["before", "after", "hold"] = "hold"
        if self.fault.kind in ("before-commit", "after-commit") and self.fault.target != "kafka-network":
            what = "before" if self.fault.kind == "before-commit" else "after"
        statement = self._chosen.choice(self._held) if self.fault.kind == "stop" else b"COMMIT"
        if self.fault.target != "publisher":
            for world in self._worlds:
                self._points.update(
                    {each: each.postgres.at_commit(what, statement=statement) for each in world.consumers}
                )

    def wait(self, limit: float) -> bool:
        """Wait until a COMMIT is under way in each world, and choose whose it is where one is to be chosen; whether it came."""
        end = time.monotonic() + limit
        while not (there := all(map(self._reached, self._worlds))) and time.monotonic() < end:
            time.sleep(0.01)
        if not self._takes_all and self.fault.target != "publisher":
            self._victims.extend(
                self._chosen.choice(self._reached(world) or list(world.consumers)) for world in self._worlds
            )
            for consumer in self._points.keys() - set(self._victims):
                self._points[consumer].release()
        return there

    def _reached(self, world: World) -> list[Consumer]:
        return [each for each in world.consumers if each not in self._points or self._points[each].reached.is_set()]

    def hit(self) -> None:
        """Do it, in the middle of what the victims are at; return when it has done its worst."""
        if self.fault.target == "publisher":
            self._hit_publishers()
        elif self.fault.target in ("broker", "postgres"):
            self._hit_server("kafka" if self.fault.target == "broker" else "postgres")
        elif self.fault.kind in _SIGNALS and self.fault.target in ("consumers", "consumer"):
            self._hit_processes()
        elif self.fault.kind == "refused":
            self._refuse()
        else:
            self._hit_network()

    def heal(self) -> None:
        """Bring everything back."""
        if self.fault.target in ("broker", "postgres"):
            server: ServerName = "kafka" if self.fault.target == "broker" else "postgres"
            if self.fault.kind == "stop":
                self._servers.signal(server, signal.SIGCONT)
            self._servers.start(server)
        for consumer in self._points:
            consumer.postgres.forget_commit()
        for victim in self._victims:
            victim.heal()
        for child, proxy in self._publishers:
            proxy.slow(0)
            proxy.accept()
            child.signal(signal.SIGCONT)
            child.start()

    def _release(self) -> None:
        for victim in self._victims:
            # who is killed may have sent it, or may not
            victim.postgres.release(sends=self.fault.kind != "kill" or self._chosen.random() < 0.5)

    def _hit_processes(self) -> None:
        number = _SIGNALS[self.fault.kind]
        alive = [victim for victim in self._victims if victim.child.is_alive]
        for victim in alive:
            victim.child.signal(number)
        self._release()
        if self.fault.kind == "stop":
            self._wait_given_up()
        for victim in alive if self.fault.kind != "stop" else ():
            status = victim.child.ended(_EXIT_SECONDS)
            if self.fault.kind == "term" and not victim.child.is_new:
                self._expect(victim.name, status, 0)

    def _expect(self, who: str, status: int | None, expected: int) -> None:
        # where another fault strikes, too, it may not end in time, and who is just starting says that a server is away
        if status != expected and (self._alone or status not in (None, _COULD_NOT)):
            self.problems.append(
                f"{who}: expected exit status {expected}, found {'none' if status is None else status}"
            )

    def _wait_given_up(self) -> None:
        """Wait until the group has taken the victims' partitions away; it can't be asked while its broker is away, too."""
        limit = LIMIT_SECONDS if self._alone else 2 * SESSION_SECONDS
        for world in self._worlds:
            left = sum(each.processes for each in world.consumers if each not in self._victims and each.child.is_alive)
            try:
                wait_until(lambda world=world, left=left: world.members() <= left, "the end of the session", limit)  # type: ignore[misc]
            except TimeoutError:
                if self._alone:
                    raise

    def _hit_server(self, server: ServerName) -> None:
        if self.fault.kind == "refused":
            self._end_victims()
            self._servers.stop(server)
            self._start_in_vain()
            return
        if self.fault.kind == "term":
            # its operator stops it, which waits for nobody
            self._release_after_commit()
            self._servers.stop(server)
            return
        number = signal.SIGSTOP if self.fault.kind == "stop" else signal.SIGKILL
        self._servers.signal(server, number)
        self._release()
        if self.fault.kind == "stop":
            time.sleep(SESSION_SECONDS * 1.2)

    def _release_after_commit(self) -> None:
        if self._chosen.random() < 0.5:
            self._release()

    def _hit_network(self) -> None:
        proxies = self._proxies()
        if self.fault.kind == "stop":
            for proxy in proxies:
                proxy.stall()
            self._release()
            time.sleep(SESSION_SECONDS * 1.2)
        elif self.fault.kind == "slow":
            for proxy in proxies:
                proxy.slow(_SLOW_SECONDS)
            self._release()
        elif self.fault.target == "kafka-network":
            if self.fault.kind == "after-commit":
                self._release()
            for proxy in proxies:
                proxy.cut()
            self._release()

    def _refuse(self) -> None:
        self._end_victims()
        for proxy in self._proxies():
            proxy.refuse()
        self._start_in_vain()

    def _end_victims(self) -> None:
        for victim in self._victims:
            victim.child.signal(signal.SIGKILL)
        self._release()
        for victim in self._victims:
            victim.child.wait()

    def _start_in_vain(self) -> None:
        for victim in self._victims:
            victim.child.mark()
            victim.child.start()
        for victim in self._victims:
            self._expect(victim.name, victim.child.ended(_EXIT_SECONDS), _COULD_NOT)
            if self._alone and "milepost: " not in victim.child.said():
                self.problems.append(
                    f"{victim.name}: expected a line that says what is away, found {victim.child.said()}"
                )

    def _proxies(self) -> list[KafkaProxy | PostgresProxy]:
        is_kafka = self.fault.target == "kafka-network"
        return [each.kafka if is_kafka else each.postgres for each in self._victims]

    def _hit_publishers(self) -> None:
        for child, proxy in self._publishers:
            if self.fault.kind == "slow":
                proxy.slow(_SLOW_SECONDS)
            elif self.fault.kind == "refused":
                proxy.refuse()
            else:
                child.signal(_SIGNALS[self.fault.kind])
        if self.fault.kind == "stop":
            time.sleep(SESSION_SECONDS)
        for child, _ in self._publishers if self.fault.kind in ("kill", "term") else ():
            status = child.ended(_EXIT_SECONDS)
            if self.fault.kind == "term" and not child.is_new:
                self._expect("publisher", status, 0)
