"""What commands print: JSON for programs, tables for people."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import click
import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from milepost.schemas import Position


def document(value: object) -> bytes:
    """A JSON document: digests in hex, positions as printed, keys as the fields are named."""
    return msgspec.json.encode(to_plain(value))


def to_plain(value: object) -> object:
    """Structs as mappings, digests in hex, positions as texts."""
    if isinstance(value, Position):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, msgspec.Struct):
        return _fields(value)
    if isinstance(value, dict):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    return value


def _fields(value: msgspec.Struct) -> dict[str, object]:
    plain = {field: to_plain(getattr(value, field)) for field in value.__struct_fields__}
    if isinstance(position := getattr(value, "position", None), Position):
        plain |= {"topic": position.topic, "partition": position.partition, "offset": position.offset}
    return plain


def print_json(value: object) -> None:
    """Write one document and a line end to standard output."""
    write(document(value) + b"\n")


def print_array(values: Iterable[object]) -> None:
    """Write a JSON array element by element, a line each: it never stands whole in memory."""
    stream = sys.stdout.buffer
    separator = b"["
    for value in values:
        stream.write(separator + document(value))
        separator = b",\n"
    stream.write(b"[]\n" if separator == b"[" else b"]\n")
    stream.flush()


def write(content: bytes) -> None:
    """Write bytes to standard output as they are."""
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """A table for people, or one line when there is nothing to show."""
    table = Table(*columns, box=None, header_style="bold", pad_edge=False)
    for row in rows:
        table.add_row(*[Text(shown(value)) for value in row])
    if not table.row_count:
        click.echo(empty, err=True)
        return
    # what is piped away is never cut to the width of a terminal
    console = Console() if sys.stdout.isatty() else Console(width=100_000)
    console.print(table)


def print_facts(facts: Iterable[tuple[str, object]]) -> None:
    """Names and values, a line each."""
    rows = [(name, shown(value)) for name, value in facts]
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        click.echo(f"{name:<{width}}  {value}")


def shown(value: object) -> str:
    """A value as a person reads it."""
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%fZ")
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
