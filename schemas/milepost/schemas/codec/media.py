"""What a record's content type says: which content mode of CloudEvents it is, and whether data is JSON."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from milepost.schemas.errors import InvalidRecord
from milepost.schemas.reasons import Reason

JSON: Final = b"application/json"
_STRUCTURED: Final = b"application/cloudevents+json"
_BATCHED: Final = b"application/cloudevents-batch"
_ANY_FORMAT: Final = b"application/cloudevents"
_LONGEST: Final = 4_096
# RFC 6838, section 4.2
_JSON_SUFFIX: Final = re.compile(rb"[a-z0-9][a-z0-9!#$&^_.+-]*/[a-z0-9][a-z0-9!#$&^_.+-]*\+json")


@lru_cache(maxsize=1_024)
def is_structured(content_type: bytes) -> bool:
    """Whether the record's value is an envelope; otherwise it is the data itself, and the attributes are headers.

    As in the Kafka binding 1.0.2, section 3: the prefix of the content type decides. Raises `InvalidRecord` for the batched
    mode and for envelopes in another format than JSON in UTF-8.
    """
    if len(content_type) > _LONGEST:
        expected = f"a content type of at most {_LONGEST} bytes"
        raise InvalidRecord(Reason.WRONG_CONTENT_TYPE, f"expected {expected}, found {len(content_type)} bytes")
    media_type = _parts(content_type)[0]
    if not media_type.startswith(_ANY_FORMAT):
        return False
    if media_type.startswith(_BATCHED):
        raise InvalidRecord(Reason.BATCHED_MODE, f"expected one event in a record, found {content_type!r:.100}")
    if media_type != _STRUCTURED or not is_json(content_type):
        expected = f"{_STRUCTURED.decode()} in UTF-8"
        raise InvalidRecord(Reason.WRONG_CONTENT_TYPE, f"expected {expected}, found {content_type!r:.100}")
    return True


@lru_cache(maxsize=1_024)
def is_json(content_type: bytes) -> bool:
    """Whether a media type is JSON in UTF-8 (RFC 6838 for the suffix, RFC 8259 section 8.1 for the encoding)."""
    media_type, *parameters = _parts(content_type)
    if media_type != JSON and _JSON_SUFFIX.fullmatch(media_type) is None:
        return False
    pairs = [part.partition(b"=") for part in parameters]
    # white space around = is no HTTP, but what it says is plain
    charsets = [value.strip(b' \t"') for name, _, value in pairs if name.strip() == b"charset"]
    return all(charset in (b"utf-8", b"utf8", b"us-ascii") for charset in charsets)


def _parts(content_type: bytes) -> list[bytes]:
    return [part.strip().lower() for part in content_type.split(b";")]
