"""Recordings: a log of a version, and what a view of it holds, a JSON object in each line.

`VERSION.jsonl` has the records: partition, time (the log's, milliseconds), key, value and headers, each a text, null, or
`{"base64": …}`. `VERSION.view.jsonl` begins with the digest, then has the rows, table by table, as `milepost compare` reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import psycopg
from psycopg.rows import dict_row

from milepost.consumer import compare, queries
from milepost.consumer.headers import headers_document, headers_of, shown_bytes
from tests.topic.reading import Found

FOLDER = Path(__file__).parents[1] / "data" / "recorded"
_APART = {"topic", "topic_id", "cluster_id"}
"""Columns that hang on where the log lies when it is replayed."""
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode

Row = dict[str, Any]


def versions() -> list[str]:
    """All versions that were recorded."""
    return sorted(path.name.removesuffix(".view.jsonl") for path in FOLDER.glob("*.view.jsonl"))


def log_file(version: str) -> Path:
    """Where the log of a version is."""
    return FOLDER / f"{version}.jsonl"


def view_file(version: str) -> Path:
    """Where the view of a version is."""
    return FOLDER / f"{version}.view.jsonl"


def write(path: Path, lines: Iterable[object]) -> None:
    """Write objects, a line each."""
    path.write_bytes(b"".join(_encode(line) + b"\n" for line in lines))


def read(path: Path) -> Iterator[Any]:
    """The objects of a file."""
    return (_decode(line) for line in path.read_bytes().splitlines())


def to_line(record: Found) -> Row:
    """A record as it is written."""
    return {
        "partition": record.partition,
        "time": record.time,
        "key": shown_bytes(record.key),
        "value": shown_bytes(record.value),
        "headers": msgspec.Raw(headers_document(record.headers)),
    }


def from_line(line: Row) -> Found:
    """What `to_line` was made from."""
    ((_, key), (_, value)) = headers_of(_encode([["key", line["key"]], ["value", line["value"]]]))
    return Found(line["partition"], line["time"], key, value, tuple(headers_of(_encode(line["headers"]))))


def dump(database: str) -> Iterator[Row]:
    """The rows of a view, without what hangs on where its log lies."""
    with psycopg.connect(database, row_factory=dict_row) as connection:
        for table in compare.TABLES:
            for row in connection.execute(queries.load("compare")[table]):
                yield {"table": table, **{name.rstrip("|"): row[name] for name in row if name not in _APART}}


def digest(database: str) -> str:
    """The digest of a view, wherever its log lies."""
    with compare.snapshot(database) as connection:
        return compare.digest(connection, positions=False).hex()
