"""The topic that a log is copied to: made, marked as unfinished while it is filled, and finished.

While it is filled its records bring their times along (`CreateTime`), and two limits have values that nobody else gives them: so
a topic is known to be an unfinished copy, and not somebody's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
)
from tenacity import retry, retry_if_exception_type, retry_if_result, stop_after_delay, wait_fixed

from milepost.consumer import kafka
from milepost.consumer.kafka import ANSWER_SECONDS, only, translated
from milepost.consumer.log import LogIdentity, check_topic, create_topic, describe_settings, ends, identify
from milepost.schemas import WrongLog
from milepost.schemas.wire import MAX_RECORD_BYTES, TOPIC_CONFIG

_NO_LIMIT: Final = str(2**63 - 2)
"""Milliseconds. One less than the largest, which a topic may have by default."""
_LIMITS: Final = ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms")
_UNFINISHED: Final = {"message.timestamp.type": "CreateTime", **dict.fromkeys(_LIMITS, _NO_LIMIT)}
_ITS_OWN: Final = ("message.timestamp.", "leader.replication.", "follower.replication.")
"""Settings of a topic that another one must not take over."""

_soon = stop_after_delay(ANSWER_SECONDS)


def is_unfinished(settings: Mapping[str, str | None]) -> bool:
    """Whether these are the settings of a copy that was not finished."""
    return all(settings.get(name) == value for name, value in _UNFINISHED.items())


def prepare(
    client: AdminClient,
    servers: str,
    source: LogIdentity,
    to: str,
    partitions: int,
    *,
    copies: int | None,
    replace: bool,
) -> LogIdentity:
    """An empty, unfinished target, with what was set for the source; `copies` is its replication factor, None for the source's.

    An unfinished target with records is deleted when `replace` says so. Raises `WrongLog` for any other topic with records, and
    for an empty one with another number of partitions.
    """
    found = _found(client, servers, to)
    if found is not None and any(ends(client, servers, found).values()):
        if not is_unfinished(describe_settings(client, servers, to)):
            raise WrongLog(
                f"expected that there is no topic {to} yet, or an empty one, found one with records; name another"
            )
        if not replace:
            raise WrongLog(f"{to} is an unfinished copy; delete it and begin again by the same command with --replace")
        _delete(client, servers, to)
        found = None
    if found is None:
        config = {**_set_for(client, servers, source.topic), **_UNFINISHED}
        factor = copies if copies is not None else _replication_factor(client, servers, source.topic)
        _create(client, servers, to, partitions, factor, config)
    elif found.partitions != partitions:
        raise WrongLog(f"expected {partitions} partitions of the empty topic {to}, found {found.partitions}")
    else:
        _alter(client, servers, to, _UNFINISHED)
    return identify(client, servers, to)


def finish(client: AdminClient, servers: str, to: str) -> None:
    """From here on the log's clock counts in the target, as in every log. Waits until the brokers say so."""
    _alter(client, servers, to, {"message.timestamp.type": TOPIC_CONFIG["message.timestamp.type"]}, remove=_LIMITS)
    _check_soon(client, servers, to)


@retry(retry=retry_if_exception_type(WrongLog), stop=_soon, wait=wait_fixed(0.05), reraise=True)
def _check_soon(client: AdminClient, servers: str, topic: str) -> None:
    check_topic(client, servers, topic)


def _found(client: AdminClient, servers: str, topic: str) -> LogIdentity | None:
    try:
        return identify(client, servers, topic)
    except WrongLog:
        return None


def _set_for(client: AdminClient, servers: str, topic: str) -> dict[str, str]:
    """What was set for this topic and does not hang on where it lies, with the settings that every log must have."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    with translated(servers):
        entries = only(client.describe_configs([resource], request_timeout=ANSWER_SECONDS))
    chosen = {
        name: str(entry.value)
        for name, entry in entries.items()
        if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value and not name.startswith(_ITS_OWN)
    }
    largest = max(MAX_RECORD_BYTES, int(chosen.get("max.message.bytes", 0)))
    return {**chosen, **TOPIC_CONFIG, "max.message.bytes": str(largest)}


def _replication_factor(client: AdminClient, servers: str, topic: str) -> int:
    with translated(servers):
        found = only(client.describe_topics(TopicCollection([topic]), request_timeout=ANSWER_SECONDS))
    return min(len(partition.replicas) for partition in found.partitions)


@retry(retry=retry_if_result(lambda created: not created), stop=_soon, wait=wait_fixed(0.05))
def _create(
    client: AdminClient, servers: str, topic: str, partitions: int, factor: int, config: Mapping[str, str]
) -> bool:
    """Right after a deletion the name may still be taken for a moment."""
    return create_topic(client, servers, topic, partitions, factor, config=config)


def _delete(client: AdminClient, servers: str, topic: str) -> None:
    with translated(servers):
        only(client.delete_topics([topic], operation_timeout=ANSWER_SECONDS, request_timeout=ANSWER_SECONDS))
    _wait_until_gone(client, servers, topic)


@retry(retry=retry_if_result(lambda found: found is not None), stop=_soon, wait=wait_fixed(0.05))
def _wait_until_gone(client: AdminClient, servers: str, topic: str) -> LogIdentity | None:
    return _found(client, servers, topic)


def _alter(
    client: AdminClient, servers: str, topic: str, settings: Mapping[str, str], *, remove: tuple[str, ...] = ()
) -> None:
    entries = [
        *(ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in settings.items()),
        *(ConfigEntry(name, None, incremental_operation=AlterConfigOpType.DELETE) for name in remove),
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    with translated(servers):
        try:
            only(client.incremental_alter_configs([resource], request_timeout=ANSWER_SECONDS))
        except KafkaException as error:
            if kafka.code(error) in (KafkaError.INVALID_CONFIG, KafkaError.POLICY_VIOLATION):
                raise WrongLog(f"Kafka refused settings of the topic {topic}: {kafka.reason(error)}") from error
            raise
