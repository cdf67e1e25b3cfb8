"""Files that commands write: whole, under a name that was free, or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, BinaryIO, TypeVar, cast

import click

from milepost.consumer.cli.output import CouldNotError

_Command = TypeVar("_Command", bound=Callable[..., Any])


def new_file_option(*, required: bool, text: str) -> Callable[[_Command], _Command]:
    """The option --to: a file that is not there yet."""
    return click.option(
        "--to",
        required=required,
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        callback=_free,
        help=f"{text} It must not be there yet.",
    )


@contextmanager
def write_new(path: Path) -> Iterator[BinaryIO]:
    """A file that appears under its name when all of it is on disk, for its owner alone to read. What fails leaves nothing."""
    temporary: Path | None = None
    try:
        with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as stream:
            temporary = Path(stream.name)
            yield cast(BinaryIO, stream)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except OSError as error:
        raise CouldNotError(f"{path}: {error.strerror or error}") from error
    finally:
        if temporary is not None:
            with suppress(FileNotFoundError):
                temporary.unlink()


def _free(_context: click.Context, _parameter: click.Parameter, value: Path | None) -> Path | None:
    if value is not None and value.exists():
        raise click.BadParameter(f"{value} is there already; name another")
    return value
