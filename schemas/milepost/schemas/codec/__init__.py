"""The codec: the only place where events become records and records become events."""

from milepost.schemas.codec.decode import decode
from milepost.schemas.codec.encode import encode

__all__ = ["decode", "encode"]
