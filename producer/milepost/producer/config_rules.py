"""Which of librdkafka's settings a publisher may change. Names and meanings: librdkafka's CONFIGURATION.md."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from milepost.schemas.wire import MAX_RECORD_BYTES

_RECEIPTS = "receipts rest on it"
_FIRST = "give it as bootstrap_servers"
_QUEUE = "give queue_bytes: it bounds all that waits"
_TRANSACTIONS = "a transaction would hold events back until somebody commits it"
_RETRIES = "an event is tried again for as long as delivery.timeout.ms says"
_OTHER = "a publisher has one topic, and its settings stand beside the others"

REFUSED: Final[Mapping[str, str]] = {
    "bootstrap.servers": _FIRST,
    "metadata.broker.list": _FIRST,
    "transactional.id": _TRANSACTIONS,
    "transaction.timeout.ms": _TRANSACTIONS,
    "queue.buffering.max.messages": _QUEUE,
    "queue.buffering.max.kbytes": _QUEUE,
    "retries": _RETRIES,
    "message.send.max.retries": _RETRIES,
    "on_delivery": _RECEIPTS,
    "dr_cb": _RECEIPTS,
    "dr_msg_cb": _RECEIPTS,
    "default.topic.config": _OTHER,
    "test.mock.num.brokers": "events would go to brokers that are none",
    "topic.blacklist": "events of a topic that is left out would never be delivered",
    "partitioner_cb": "events of one session must stay in one partition",
    "msg_order_cmp": "events must leave in the order of their publish calls",
}
"""Never taken, with the reason."""

_NO: Final = ("false", "f", "0")
_ACKS: Final = (("all", "-1"), "an event counts as delivered when all in-sync replicas have it")

FIXED: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "acks": _ACKS,
    "request.required.acks": _ACKS,
    "enable.idempotence": (("true", "t", "1"), "without it a retry doubles events or changes their order (KIP-98)"),
    "enable.gapless.guarantee": (_NO, "one event that the log refuses would stop all others"),
    "delivery.report.only.error": (_NO, _RECEIPTS),
    "partitioner": (("murmur2_random",), "every publisher must put a session into the same partition"),
    "queuing.strategy": (("fifo",), "events must leave in the order of their publish calls"),
}
"""Taken only with one of these values, in lower case."""

_IN_FLIGHT: Final = (1, 5, "with more the broker can't keep the order across retries (KIP-98)")

BOUNDED: Final[Mapping[str, tuple[int, int, str]]] = {
    "message.max.bytes": (MAX_RECORD_BYTES, 1_000_000_000, "a state may have 16 MiB"),
    "max.in.flight": _IN_FLIGHT,
    "max.in.flight.requests.per.connection": _IN_FLIGHT,
}
"""Taken only within these bounds."""

SECRET: Final = re.compile(r"password|secret|token|\.pem|^ssl\.(?:key|certificate)$|oauthbearer\.(?:config|assertion)")
"""Names of settings whose values are never shown."""

LOGIN_TRIES: Final = frozenset({"GSSAPI", "OAUTHBEARER"})
"""SASL mechanisms that fetch a ticket or a token as soon as a producer is made."""
