"""Identifiers: how new ones are made, and which ones are valid.

The rules do not lean on a Unicode version, so that the same record is judged the same by every Python.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final
from uuid import UUID

import uuid6

MAX_TENANT_CHARACTERS: Final = 128
MAX_ID_CHARACTERS: Final = 512

_TENANT = re.compile(r"[A-Za-z0-9._-]{1,128}")
# C0, DEL and C1 controls, line and paragraph separators, bidirectional overrides, BOM, surrogates, non-characters
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff\ufffe\uffff]")


def new_event_id() -> UUID:
    """A new UUIDv7 (RFC 9562), later than all that this process made before."""
    return UUID(int=uuid6.uuid7().int)


def new_checkpoint_id() -> str:
    """A new UUIDv7 in 32 hexadecimal digits, later than all that this process made before."""
    return f"{uuid6.uuid7().int:032x}"


def tenant_problem(tenant_id: object) -> str | None:
    """What is wrong with a tenant id, or None when it is valid."""
    if isinstance(tenant_id, str) and _TENANT.fullmatch(tenant_id):
        return None
    return f"expected 1 to {MAX_TENANT_CHARACTERS} characters of A-Z a-z 0-9 . _ -, found {_shown(tenant_id)}"


def id_problem(value: object) -> str | None:
    """What is wrong with a session or checkpoint id, or None when it is valid."""
    if not isinstance(value, str):
        return f"expected a text, found {_shown(value)}"
    if not 1 <= len(value) <= MAX_ID_CHARACTERS:
        return f"expected 1 to {MAX_ID_CHARACTERS} characters, found {len(value)}"
    if value[0] == "/":
        return f"expected no / at the start, found {_shown(value)}"
    return text_problem(value)


def text_problem(value: str) -> str | None:
    """What is not printable in a text, or None when all of it is."""
    if value.isascii() and value.isprintable():
        return None
    if (bad := _UNPRINTABLE.search(value)) is None:
        return None
    return f"expected printable characters only, found U+{ord(bad[0]):04X} at character {bad.start()}"


@lru_cache(maxsize=65_536)
def session_key(tenant_id: str, session_id: str) -> bytes:
    """The key of all records of a session: `tenant/session` in UTF-8. A tenant has no slash, so keys never alias."""
    return f"{tenant_id}/{session_id}".encode()


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}… ({type(value).__name__})"
