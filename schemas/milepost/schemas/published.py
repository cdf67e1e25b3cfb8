"""The published documents of the wire, for tools that read AsyncAPI or JSON Schema. `documents/README.md` explains them."""

from __future__ import annotations

from importlib.resources import files
from typing import Any, cast

import msgspec

from milepost.schemas.wire import Kind


def asyncapi() -> dict[str, Any]:
    """The AsyncAPI 3.0 document: the topic, its settings, both kinds of event. A new dict on each call."""
    return _document("asyncapi.json")


def json_schema(kind: Kind | str) -> dict[str, Any]:
    """The JSON Schema (2020-12) of the records of a kind: key and headers. A new dict on each call.

    Raises `ValueError` for a kind that is none.
    """
    return _document(f"{Kind(kind)}.schema.json")


def _document(name: str) -> dict[str, Any]:
    path = files("milepost.schemas").joinpath("documents", name)
    return cast("dict[str, Any]", msgspec.json.decode(path.read_bytes()))
