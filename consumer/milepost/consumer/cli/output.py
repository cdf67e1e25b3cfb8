"""What commands print: JSON for programs, tables for people."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, BinaryIO

import click
import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from milepost.schemas import Position


class CouldNotError(click.ClickException):
    """Could not do it; exit status 3."""

    exit_code = 3

    def show(self, file: Any = None) -> None:
        """One line on standard error."""
        click.echo(f"milepost: {self.format_message()}", err=True, file=file)


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
    with _reader_may_leave() as stream:
        separator = b"["
        for value in values:
            stream.write(separator + document(value))
            separator = b",\n"
        stream.write(b"[]\n" if separator == b"[" else b"]\n")


def write(content: bytes) -> None:
    """Write bytes to standard output as they are."""
    with _reader_may_leave() as stream:
        stream.write(content)


@contextmanager
def _reader_may_leave() -> Iterator[BinaryIO]:
    """Standard output as bytes. Whoever reads it may have had enough, as head does: that is no failure."""
    try:
        if sys.stdout is None:
            raise CouldNotError("standard output is closed")
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        # Python must not try to flush it once more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise click.exceptions.Exit(0) from None


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
    with console.capture() as captured:
        console.print(table)
    write(captured.get().encode(sys.stdout.encoding, "backslashreplace"))


def print_facts(facts: Iterable[tuple[str, object]]) -> None:
    """Names and values, a line each."""
    rows = [(escaped(name), shown(value)) for name, value in facts]
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        click.echo(f"{name:<{width}}  {value}")


def shown(value: object) -> str:
    """A value as a person reads it, in one line; what a terminal would obey, or would not show, is escaped."""
    return escaped(_text(value))


def escaped(text: str) -> str:
    """A text whose characters that are not printable are spelled as in Python."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def _text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(" ", "microseconds").replace("+00:00", "Z")
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
