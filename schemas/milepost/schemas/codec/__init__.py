"""The codec: the only place where events become records and records become events."""

from milepost.schemas.codec.decode import decode
from milepost.schemas.codec.encode import CheckedEvent, check, encode, render

__all__ = ["CheckedEvent", "check", "decode", "encode", "render"]
