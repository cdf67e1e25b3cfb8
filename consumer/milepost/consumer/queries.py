"""Statements by name, from the .sql files under sql/queries: each begins with a line `-- name: NAME`."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Final, LiteralString, cast

_NAME: Final = re.compile(r"^-- name: ([a-z_]+)$", re.MULTILINE)


@cache
def load(file: str) -> dict[str, LiteralString]:
    """The statements of one file."""
    text = files("milepost.consumer").joinpath("sql", "queries", f"{file}.sql").read_text(encoding="utf-8")
    parts = _NAME.split(text)
    return {
        name: cast(LiteralString, statement.strip().rstrip(";"))
        for name, statement in zip(parts[1::2], parts[2::2], strict=True)
    }
