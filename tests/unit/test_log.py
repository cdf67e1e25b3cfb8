"""An answer of Kafka's client that lacks what was asked for is no answer: the log behind it must not look like another one.

Seen when a connection broke while the ends of several partitions were asked for: one of them came back as -1001.
"""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, TopicPartition

from milepost.consumer import log
from milepost.consumer.log import LogIdentity
from milepost.schemas import KafkaUnavailable

LOG = LogIdentity("cluster", "events", "topic-id", 2)


class Client:
    """An admin client that gives out these answers, one after the other, the last one for ever."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    def _next(self) -> Any:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def list_topics(self, topic: str, timeout: float) -> None:
        """For the client to look anew."""

    def list_offsets(self, wanted: dict[TopicPartition, object], **_: object) -> dict[TopicPartition, Future[Any]]:
        found = self._next()
        return {key: _done(SimpleNamespace(offset=found[key.partition])) for key in wanted}

    def describe_cluster(self, **_: object) -> Future[Any]:
        return _done(SimpleNamespace(cluster_id=self.answers[0]))

    def describe_topics(self, *_: object, **__: object) -> dict[str, Future[Any]]:
        return {"events": _done(SimpleNamespace(topic_id="topic-id", partitions=self.answers[1]))}


def _done(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


def test_an_offset_that_is_missing_from_an_answer_is_asked_for_again() -> None:
    client: Any = Client([3, OFFSET_INVALID], [OFFSET_INVALID, 5], [3, 5])
    assert log.ends(client, "servers", LOG) == {0: 3, 1: 5}
    client = Client([OFFSET_INVALID, 0], [0, 0])
    assert log.beginnings(client, "servers", LOG) == {0: 0, 1: 0}


def test_one_that_stays_missing_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log.offsets.retry, "stop", lambda _state: True)
    client: Any = Client([3, OFFSET_INVALID])
    with pytest.raises(KafkaUnavailable, match="no offset of the partitions 1"):
        log.ends(client, "servers", LOG)


@pytest.mark.parametrize(
    ("cluster", "partitions", "missing"), [(None, [0, 1], "no id of the cluster"), ("cluster", [], "no partitions")]
)
def test_an_identity_with_a_hole_is_none(cluster: str | None, partitions: list[int], missing: str) -> None:
    client: Any = Client(cluster, partitions)
    with pytest.raises(KafkaUnavailable, match=missing):
        log.identify(client, "servers", "events")
