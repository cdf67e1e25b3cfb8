"""The nouns and the wire: events, codec, what a valid state is, errors."""

from milepost.schemas.codec import decode, encode
from milepost.schemas.errors import (
    CorruptState,
    DatabaseUnavailable,
    DeliveryFailed,
    Fenced,
    InvalidEvent,
    InvalidRecord,
    InvalidSetting,
    KafkaUnavailable,
    MilepostError,
    PublisherClosed,
    Tampered,
    Unavailable,
    WrongLog,
    WrongView,
)
from milepost.schemas.events import CheckpointCreated, Event, Position, SessionDeleted
from milepost.schemas.json_text import MAX_DEPTH, MAX_STATE_BYTES, JsonFault, find_fault
from milepost.schemas.reasons import Reason
from milepost.schemas.wire import DEFAULT_TOPIC, EncodedEvent, Envelope, Kind

__all__ = [
    "DEFAULT_TOPIC",
    "MAX_DEPTH",
    "MAX_STATE_BYTES",
    "CheckpointCreated",
    "CorruptState",
    "DatabaseUnavailable",
    "DeliveryFailed",
    "EncodedEvent",
    "Envelope",
    "Event",
    "Fenced",
    "InvalidEvent",
    "InvalidRecord",
    "InvalidSetting",
    "JsonFault",
    "KafkaUnavailable",
    "Kind",
    "MilepostError",
    "Position",
    "PublisherClosed",
    "Reason",
    "SessionDeleted",
    "Tampered",
    "Unavailable",
    "WrongLog",
    "WrongView",
    "decode",
    "encode",
    "find_fault",
]
