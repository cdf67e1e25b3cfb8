"""How the values of a read come out of Postgres, whatever the connection was set up for.

A pool of the caller's may have its own row factories, loaders, time zone or encoding. These cursors have their own loaders,
all of them for the binary format, which no setting of a session changes: a time is always in UTC, a state always bytes.
"""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec
from psycopg import AsyncCursor, Cursor, adapters
from psycopg.abc import Buffer
from psycopg.adapt import AdaptersMap, Loader
from psycopg.pq import Format
from psycopg.types.bool import BoolBinaryLoader
from psycopg.types.numeric import Int4BinaryLoader, Int8BinaryLoader
from psycopg.types.string import ByteaBinaryLoader, TextBinaryLoader
from psycopg.types.uuid import UUIDBinaryLoader

from milepost.consumer.reading import Row

_POSTGRES_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_unpack_int8: Final = struct.Struct("!q").unpack
_decode_texts: Final = msgspec.json.Decoder(dict[str, str]).decode


class _MomentLoader(Loader):
    """timestamptz: microseconds since 2000, as an aware datetime in UTC."""

    format = Format.BINARY

    def load(self, data: Buffer) -> datetime:
        return _POSTGRES_EPOCH + timedelta(0, 0, _unpack_int8(data)[0])


class _JsonTextsLoader(Loader):
    """json: an object of strings."""

    format = Format.BINARY

    def load(self, data: Buffer) -> dict[str, str]:
        return _decode_texts(data)


class _JsonbTextsLoader(Loader):
    """jsonb: an object of strings, after one byte for the version of the format."""

    format = Format.BINARY

    def load(self, data: Buffer) -> dict[str, str]:
        return _decode_texts(memoryview(data)[1:])


def _own_adapters() -> AdaptersMap:
    own = AdaptersMap(adapters)
    own.register_loader("bool", BoolBinaryLoader)
    own.register_loader("bytea", ByteaBinaryLoader)
    own.register_loader("int4", Int4BinaryLoader)
    own.register_loader("int8", Int8BinaryLoader)
    own.register_loader("json", _JsonTextsLoader)
    own.register_loader("jsonb", _JsonbTextsLoader)
    own.register_loader("text", TextBinaryLoader)
    own.register_loader("timestamptz", _MomentLoader)
    own.register_loader("uuid", UUIDBinaryLoader)
    return own


_ADAPTERS: Final = _own_adapters()


class ReadCursor(Cursor[Row]):
    """A cursor for reads; execute with `binary=True`."""

    __slots__ = ()

    @property
    def adapters(self) -> AdaptersMap:
        """The loaders of reads, not the connection's."""
        return _ADAPTERS


class AsyncReadCursor(AsyncCursor[Row]):
    """A cursor for reads; execute with `binary=True`."""

    __slots__ = ()

    @property
    def adapters(self) -> AdaptersMap:
        """The loaders of reads, not the connection's."""
        return _ADAPTERS
