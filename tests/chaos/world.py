"""One log, its view, and who works on them: consumers, each behind proxies of its own."""

from __future__ import annotations

import signal
import sys
import uuid
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, Self

import psycopg
from confluent_kafka import Consumer as Member
from confluent_kafka import KafkaException, TopicPartition

from milepost.consumer import kafka, queries
from milepost.consumer.database import connect, scalar
from milepost.consumer.log import create_topic
from milepost.consumer.materializer import become_writer
from milepost.consumer.policies import set_default
from milepost.consumer.records import LogRecord
from milepost.consumer.retry import DONE, Retry
from milepost.consumer.watch import bind
from milepost.producer.spool.survey import survey
from milepost.schemas import Event, KafkaUnavailable, Position, encode
from milepost.schemas.partitioning import partition_of
from tests.chaos import planted
from tests.chaos.check import Log, differences, wait_for_view
from tests.chaos.process import Child, Quick, wait_until
from tests.chaos.publisher import MARK
from tests.chaos.servers import Servers
from tests.chaos.signals import unbroken
from tests.chaos.traffic import REFUSED, RawRecord, checkpoint
from tests.fixtures.proxy import KafkaProxy, PostgresProxy

PARTITIONS: Final = 4
ONE_EACH: Final = [
    next(
        name
        for number in range(100)
        if partition_of(f"acme/{(name := f's{number}')}".encode(), PARTITIONS) == partition
    )
    for partition in range(PARTITIONS)
]
"""Sessions of acme, one in each partition."""
# what a database refuses while told so: records that a retry makes good later
_REFUSING: Final = f"""
create schema milepost_chaos;
create table milepost_chaos.refused (yes boolean);
insert into milepost_chaos.refused values (true);
create function milepost_chaos.refuse() returns trigger language plpgsql security definer as $$
begin
    if exists (select from milepost_chaos.refused) then
        raise exception 'refused for a while' using errcode = '22023';
    end if;
    return new;
end $$;
create trigger refuse before insert on milepost.history
    for each row when (new.session_id like '{REFUSED}%') execute function milepost_chaos.refuse();
"""


_CHECKS: Final = 5
_AWAY: Final = ("could not do it now", "did not answer within", "waited for")
"""What a consumer says that ends, or does not begin, because a server is away."""


class Consumer:
    """One `milepost consume`, behind a proxy to each server."""

    def __init__(self, world: World, name: str, processes: int, bug: str) -> None:
        self.name: Final = name
        self.processes: Final = processes
        self.kafka: Final = KafkaProxy(world.servers.kafka)
        self.postgres: Final = PostgresProxy(world.database)
        self.log: Final = world.folder / f"{name}.log"
        arguments = ["-v", "consume", "--processes", str(processes)]
        variables = {
            "MILEPOST_KAFKA": self.kafka.servers,
            "MILEPOST_TOPIC": world.topic,
            "MILEPOST_DATABASE": f"{self.postgres.database} application_name={name}",
            planted.VARIABLE: bug,
        }
        self.child: Final = (
            Quick(arguments, variables, self.log)
            if processes == 1
            else Child("tests.chaos.consumer", arguments, variables, self.log)
        )

    def heal(self) -> None:
        """Undo whatever was done to it: its network, its being stopped, its death."""
        self.postgres.forget_commit()
        for proxy in (self.kafka, self.postgres):
            proxy.slow(0)
            proxy.resume()
            proxy.accept()
        self.child.signal(signal.SIGCONT)
        self.child.start()

    def end(self) -> None:
        """End it and its proxies."""
        self.child.end()
        self.kafka.close()
        self.postgres.close()


class World:
    """A fresh topic and a fresh database, from `with` to its end."""

    def __init__(
        self,
        servers: Servers,
        folder: Path,
        consumers: Sequence[int],
        *,
        publishers: int = 0,
        newest: int = 50,
        bug: str = "",
    ) -> None:
        """`consumers`: how many processes each of them has. `bug` names one to plant into them."""
        self.servers: Final = servers
        self.topic: Final = f"chaos.{uuid.uuid4().hex[:12]}"
        self.folder: Final = folder / self.topic
        self.folder.mkdir(parents=True)
        self.database: Final = servers.database()
        self.log: Final = self._made_log()
        self._admin = kafka.admin(servers.kafka)
        with closing(connect(self.database)) as connection:
            bind(connection, self.log.identity)
            set_default(connection, newest)
            connection.execute(_REFUSING)
            self.group: Final = str(scalar(connection, queries.load("materialize")["consumer_group"]))
        self.newest = newest
        self.replayed = ""
        self.consumers: Final = [
            Consumer(self, f"consumer-{number}", processes, bug) for number, processes in enumerate(consumers, 1)
        ]
        self.publishers: Final = [self._publisher(number) for number in range(publishers)]

    def __enter__(self) -> Self:
        try:
            for consumer in self.consumers:
                consumer.child.start()
            for child, _ in self.publishers:
                child.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        with unbroken():
            self._end()

    def _end(self) -> None:
        for child, proxy in self.publishers:
            child.end()
            proxy.close()
        for consumer in self.consumers:
            consumer.end()
        with suppress(psycopg.Error, KafkaException, TimeoutError):
            for database in filter(None, (self.database, self.replayed)):
                self.servers.drop(database)
            self._admin.delete_topics([self.topic])[self.topic].result(5)

    def _made_log(self) -> Log:
        """A topic of our own; on a busy machine the first answer may come too late. Raises TimeoutError."""
        made: list[Log] = []

        def there() -> bool:
            try:
                create_topic(kafka.admin(self.servers.kafka), self.servers.kafka, self.topic, PARTITIONS, 1)
                made.append(Log(self.servers.kafka, self.topic))
            except KafkaUnavailable:
                return False
            return True

        wait_until(there, f"the topic {self.topic}")
        return made[0]

    def wait_ready(self) -> None:
        """Wait until every consumer has its share. Raises TimeoutError."""
        wanted = sum(each.processes for each in self.consumers)

        def joined() -> bool:
            # on a busy machine a server may answer too late for one that starts
            self.supervise()
            return self.members() == wanted

        wait_until(joined, "all members of the group")
        wait_until(lambda: all("assigned partitions" in each.child.said() for each in self.consumers), "their shares")

    def members(self) -> int:
        """How many processes of ours the group counts; more than any number while nobody can tell."""
        (asked,) = self._admin.describe_consumer_groups([self.group], request_timeout=2).values()
        try:
            found = asked.result(5).members
        except (KafkaException, TimeoutError):
            # a client may remember that there was no coordinator; a new one asks
            self._admin = kafka.admin(self.servers.kafka)
            return sys.maxsize
        return sum(member.client_id == "milepost-consumer" for member in found)

    def _publisher(self, number: int) -> tuple[Child, KafkaProxy]:
        proxy = KafkaProxy(self.servers.kafka)
        places = [str(self.folder / f"{name}-{number}") for name in ("spool", "ledger")]
        log = self.folder / f"publisher-{number}.log"
        return Child("tests.chaos.publisher", [proxy.servers, self.topic, *places], {}, log), proxy

    def publish(self, events: Iterable[Event]) -> None:
        """Put events into the log, in order, as a foreign publisher would; returns when the log has them."""
        self.publish_raw(
            (one.key, one.value, one.headers) for one in (encode(each, source="/runtimes/x") for each in events)
        )

    def publish_raw(self, records: Iterable[RawRecord]) -> None:
        """Put records of any content into the log, in order; returns when the log has them."""
        for key, value, headers in records:
            self.servers.producer.produce(self.topic, value, key, headers=headers)
        assert self.servers.producer.flush(30) == 0, "expected every record in the log"

    def lower_policy(self) -> None:
        """Keep one checkpoint less of each session: all of them have to be measured again."""
        self.newest = max(self.newest - 1, 1)
        with closing(connect(self.database)) as connection:
            set_default(connection, self.newest)
        # a consumer notices a change of policy with its next event
        self.publish(checkpoint("acme", session_id) for session_id in ONE_EACH)

    def retry_quarantine(self) -> None:
        """Let the database take what it refused, and retry it. Raises AssertionError when a retry does not apply it."""
        with psycopg.connect(self.database) as connection:
            connection.execute("delete from milepost_chaos.refused")
            open_ones = connection.execute(
                'select topic, partition, "offset" from milepost.quarantine '
                "where status = 'open' and reason = 'refused_by_postgres'"
            ).fetchall()
        with closing(connect(self.database)) as connection:
            become_writer(connection)
            for result in Retry(connection).run([Position(*each) for each in open_ones]):
                assert result.result in DONE, result
        with psycopg.connect(self.database) as connection:
            connection.execute("insert into milepost_chaos.refused values (true)")

    def settle(self, limit: float = 60.0) -> dict[int, int]:
        """Wait until the view has the whole log, all that was refused included; where it ends. Raises TimeoutError."""
        ends = wait_for_view(self.log, self.database, limit, self.supervise)
        self.retry_quarantine()
        return ends

    def check(self, limit: float = 60.0) -> list[str]:
        """Settle and check; once more where the log has grown meanwhile, since what one has read is news to another.

        What a publisher had sent when it was killed may come at any time. Raises TimeoutError.
        """
        for _ in range(_CHECKS):
            ends = self.settle(limit)
            records = self.log.records()
            found = [*self.lost(records), *self.differences(records)]
            if self.log.ends() == ends:
                return found
        return [*found, f"the log grew during each of {_CHECKS} checks"]

    def supervise(self) -> None:
        """Start again who has ended, as whatever watches over services would."""
        for consumer in self.consumers:
            consumer.child.start()

    def unexpected(self) -> list[str]:
        """Why consumers ended, where it was not that a server was away, since this was asked for the last time."""
        found = []
        for consumer in self.consumers:
            lines = consumer.child.said().splitlines()
            consumer.child.mark()
            found += [f"{consumer.name}: {line}" for line in lines if _is_unexpected(line)]
        return found

    def wait_published(self, limit: float = 60.0) -> None:
        """Wait until the publishers have done what they were told and nothing is left in a spool. Raises TimeoutError."""
        for child, _ in self.publishers:
            child.mark()
            child.say(f"{MARK} {(mark := uuid.uuid4().hex)}")
            wait_until(lambda child=child, mark=mark: mark in child.said(), "a publisher to come to its end", limit)  # type: ignore[misc]
        for number in range(len(self.publishers)):
            spool = self.folder / f"spool-{number}"
            wait_until(lambda spool=spool: survey(spool).events == 0, f"the rest in {spool}", limit)  # type: ignore[misc]

    def lost(self, records: Iterable[LogRecord]) -> list[str]:
        """Events that `publish` returned for and that the log does not hold."""
        told = {line for path in self.folder.glob("ledger-*") for line in path.read_text().split("\n")[:-1]}
        there = {record.event.event_id.hex() for record in records if record.event is not None}
        return [f"lost: {each} was published and is not in the log" for each in sorted(told - there)[:3]]

    def differences(self, records: Iterable[LogRecord] | None = None) -> list[str]:
        """What the checker finds; the replay stays until the next one, for whoever wants to see it."""
        if self.replayed:
            self.servers.drop(self.replayed)
        self.replayed = self.servers.database(lasting=False)
        return differences(self.log, self.database, self.replayed, records)


def _is_unexpected(line: str) -> bool:
    if line.startswith("milepost: "):
        return not any(each in line for each in _AWAY)
    return line.startswith("Traceback") or '"level": "error"' in line


class Guest:
    """Somebody who joins the group for a moment and reads nothing: a rebalance at its coming and another at its going."""

    def __init__(self, world: World) -> None:
        self._member: Final = Member(
            {
                "bootstrap.servers": world.servers.kafka,
                "group.id": world.group,
                "partition.assignment.strategy": "range",
                "session.timeout.ms": 6_000,
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        self._has_share = False
        self._member.subscribe([world.topic], on_assign=self._on_assign)
        self._member.poll(0)

    def wait(self, limit: float = 10.0) -> None:
        """Wait until it has its share, which needs every other member to be alive or given up."""
        wait_until(self._is_in, "the guest's share", limit)

    def leave(self) -> None:
        """Go, and give back what it had."""
        self._member.close()

    def _is_in(self) -> bool:
        self._member.poll(0.05)
        return self._has_share

    def _on_assign(self, member: Member, partitions: list[TopicPartition]) -> None:
        self._has_share = True
        # it is no reader
        member.assign([])
