"""Which log it is: the identity a view remembers, the settings a topic must have, and how one is created."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    TopicDescription,
)
from tenacity import retry, retry_if_exception, retry_if_exception_type, stop_after_delay, wait_fixed

from milepost.consumer.kafka import ANSWER_SECONDS, code, is_unknown_topic, only, reason, translated
from milepost.schemas import WrongLog
from milepost.schemas.wire import MAX_RECORD_BYTES, TOPIC_CONFIG

_LEADERLESS: Final = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    # the client remembers who led before the broker's restart
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
)
_REFUSALS: Final = (
    KafkaError.INVALID_REPLICATION_FACTOR,
    KafkaError.INVALID_PARTITIONS,
    KafkaError.TOPIC_EXCEPTION,
    KafkaError.POLICY_VIOLATION,
    KafkaError.INVALID_CONFIG,
)


class LogIdentity(msgspec.Struct, frozen=True):
    """What tells one log from every other: a topic created again under its name has another id."""

    cluster_id: str
    topic: str
    topic_id: str
    partitions: int

    def __str__(self) -> str:
        return f"topic {self.topic} (id {self.topic_id}, {self.partitions} partitions) of cluster {self.cluster_id}"


def identify(client: AdminClient, servers: str, topic: str, *, seconds: float = ANSWER_SECONDS) -> LogIdentity:
    """The identity of a topic; each answer may take `seconds`.

    Raises `WrongLog` when there is no such topic, `KafkaUnavailable` when nobody answers.
    """
    found = find(client, servers, topic, seconds=seconds)
    if found is None:
        raise WrongLog(f"expected the topic {topic} in Kafka at {servers}, found none; run: milepost setup")
    return found


def find(client: AdminClient, servers: str, topic: str, *, seconds: float = ANSWER_SECONDS) -> LogIdentity | None:
    """The identity of a topic, or None when there is no such topic. Raises `KafkaUnavailable` when nobody answers."""
    with translated(servers, seconds):
        cluster = client.describe_cluster(request_timeout=seconds).result(seconds)
        try:
            found = only(client.describe_topics(TopicCollection([topic]), request_timeout=seconds), seconds)
        except KafkaException as error:
            if not is_unknown_topic(error):
                raise
            return None
        return identity_of(cluster.cluster_id, topic, found)


def identity_of(cluster_id: str | None, topic: str, found: TopicDescription) -> LogIdentity:
    """The identity that Kafka's answers tell. Raises `KafkaException` for one with a hole, which would be another log's."""
    if not cluster_id or not found.partitions:
        raise _no_answer("no id of the cluster" if not cluster_id else "no partitions")
    return LogIdentity(str(cluster_id), topic, str(found.topic_id), len(found.partitions))


def ends(client: AdminClient, servers: str, log: LogIdentity) -> dict[int, int]:
    """Where each partition ends: the offset the next record will get."""
    return offsets(client, servers, log, OffsetSpec.latest())  # type: ignore[no-untyped-call]


def beginnings(client: AdminClient, servers: str, log: LogIdentity) -> dict[int, int]:
    """Where each partition begins: 0, unless somebody removed records."""
    return offsets(client, servers, log, OffsetSpec.earliest())  # type: ignore[no-untyped-call]


def _is_passing(error: BaseException) -> bool:
    """Whether a leader has yet to be found, as just after a topic was made or a broker has gone."""
    return isinstance(error.__cause__, KafkaException) and code(error.__cause__) in _LEADERLESS


@retry(retry=retry_if_exception(_is_passing), stop=stop_after_delay(ANSWER_SECONDS), wait=wait_fixed(0.1), reraise=True)
def offsets(client: AdminClient, servers: str, log: LogIdentity, spec: OffsetSpec) -> dict[int, int]:
    """An offset of each partition. Raises `KafkaUnavailable` when there is no answer."""
    wanted = {TopicPartition(log.topic, partition): spec for partition in range(log.partitions)}
    with translated(servers):
        # makes the client look anew for the leaders: what it asks of them by itself it would keep from before a broker's restart
        client.list_topics(log.topic, timeout=ANSWER_SECONDS)
        futures = client.list_offsets(wanted, request_timeout=ANSWER_SECONDS)
        found = {key.partition: future.result(ANSWER_SECONDS).offset for key, future in futures.items()}
        if unanswered := sorted(partition for partition, offset in found.items() if offset == OFFSET_INVALID):
            # librdkafka gives this out as if it were an offset when the connection breaks while it asks for several
            raise _no_answer(f"no offset of the partitions {', '.join(map(str, unanswered))}")
        return found


def _no_answer(what: str) -> KafkaException:
    """An answer that lacks what was asked for. Kafka may have it later."""
    return KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE, f"an answer with {what}"))


def create_topic(
    client: AdminClient,
    servers: str,
    topic: str,
    partitions: int,
    replication_factor: int,
    *,
    config: Mapping[str, str] = TOPIC_CONFIG,
) -> bool:
    """Create the topic with the designed settings; False when it is there already. Waits until it can be described."""
    new = NewTopic(topic, partitions, replication_factor, config=dict(config))
    with translated(servers):
        try:
            only(client.create_topics([new], operation_timeout=ANSWER_SECONDS, request_timeout=ANSWER_SECONDS))
        except KafkaException as error:
            if code(error) == KafkaError.TOPIC_ALREADY_EXISTS:
                return False
            if code(error) in _REFUSALS:
                raise WrongLog(f"Kafka at {servers} refused the topic {topic}: {reason(error)}") from error
            raise
    _wait_until_described(client, servers, topic, partitions)
    return True


@retry(
    retry=retry_if_exception_type(WrongLog), stop=stop_after_delay(ANSWER_SECONDS), wait=wait_fixed(0.05), reraise=True
)
def _wait_until_described(client: AdminClient, servers: str, topic: str, partitions: int) -> None:
    """Metadata reaches each broker a little after the creation."""
    found = identify(client, servers, topic).partitions
    if found != partitions:
        raise WrongLog(f"expected {partitions} partitions of the new topic {topic}, found {found}")


def check_topic(client: AdminClient, servers: str, topic: str) -> None:
    """Raise `WrongLog` for each setting of the topic that would break a promise, naming all of them."""
    if problems := topic_problems(describe_settings(client, servers, topic)):
        raise WrongLog(f"the topic {topic} would break a promise: {'; '.join(problems)}; alter it, then run this again")


def describe_settings(client: AdminClient, servers: str, topic: str) -> dict[str, str | None]:
    """All settings of a topic, those by default included."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    with translated(servers):
        found = only(client.describe_configs([resource], request_timeout=ANSWER_SECONDS))
    return {name: entry.value for name, entry in found.items()}


def topic_problems(settings: Mapping[str, str | None]) -> list[str]:
    """What of a topic's settings would lose records, refuse them, or take a publisher's clock for the log's."""
    problems = [
        f"{name}: expected {expected}, found {settings.get(name)}"
        for name, expected in TOPIC_CONFIG.items()
        if name != "max.message.bytes" and settings.get(name) != expected
    ]
    largest = settings.get("max.message.bytes") or "0"
    if int(largest) < MAX_RECORD_BYTES:
        problems.append(f"max.message.bytes: expected {MAX_RECORD_BYTES} or more, found {largest}")
    return problems
