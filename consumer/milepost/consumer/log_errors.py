"""What librdkafka says in place of a record, and what it means for the view."""

from __future__ import annotations

import logging
from typing import Final

from confluent_kafka import KafkaError

from milepost.schemas import KafkaUnavailable, WrongLog

logger = logging.getLogger(__name__)

MOST_UNFOLDED: Final = 268_435_456
"""Bytes that a compressed batch may unfold to, though from a third of it on that is luck."""


REBUILD: Final = "rebuild the view in an empty database with: milepost replay --into DATABASE"
"""What to do when the view's log is not there any more."""


def gone(topic: str, view: str) -> WrongLog:
    """What is raised when the topic is not there; `view` says how the view stands to it."""
    return WrongLog(
        f"{view}, and Kafka has no topic {topic} any more; the view was left as it is: point --kafka at the right cluster, "
        f"or bring the log back and {REBUILD}"
    )


def position_error(error: KafkaError, topic: str, partition: int | None, position: int | None) -> None:
    """What an error in place of a record means; what librdkafka mends by itself is only logged.

    Raises `WrongLog` when the log does not hold the position, or what stands there can't be unpacked; `KafkaUnavailable` when
    librdkafka has given up.
    """
    code = error.code()
    if code in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):  # noqa: SLF001
        raise WrongLog(
            f"the view stands at offset {position} of partition {partition} of {topic}, and the log does not "
            f"hold it ({error.str()}): it was truncated or created again; {REBUILD}"
        )
    if code in (KafkaError._BAD_COMPRESSION, KafkaError._BAD_MSG):  # noqa: SLF001
        # librdkafka would fetch them again and again
        raise WrongLog(
            f"the records at offset {position} of partition {partition} of {topic} cannot be read ({error.str()}): they are "
            f"broken, or a batch that unfolds to more than {MOST_UNFOLDED} bytes; nothing behind them "
            "is applied, lest they be lost; read them with another client, and see who sent them"
        )
    if code in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):  # noqa: SLF001
        where = f"stands at offset {position} of partition {partition}" if position is not None else "was built from it"
        raise gone(topic, f"the view {where}")
    if error.fatal():
        raise KafkaUnavailable(f"Kafka ended the connection for good: {error.str()}")
    logger.info("kafka: partition %s: %s", partition, error.str())
