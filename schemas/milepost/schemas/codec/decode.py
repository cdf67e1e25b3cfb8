"""From a Kafka record to an `Envelope`: CloudEvents 1.0, binary and structured content mode."""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from typing import Final, NoReturn, cast

import msgspec

from milepost.schemas.codec import attributes as read
from milepost.schemas.codec.media import JSON, is_json, is_structured
from milepost.schemas.codec.structured import check_state, open_envelope
from milepost.schemas.errors import InvalidRecord
from milepost.schemas.ids import tenant_problem
from milepost.schemas.reasons import Reason
from milepost.schemas.wire import KNOWN_ATTRIBUTES, TYPES, Envelope, Headers, Kind

_encode_json = msgspec.json.Encoder().encode
_Attributes = dict[str, bytes]

MAX_ATTRIBUTE_BYTES: Final = 65_536
MAX_NAME_CHARACTERS: Final = 256
"""Of an attribute that milepost does not know, `ce_` included."""
MAX_EXTENSIONS_BYTES: Final = 262_144
"""Of all attributes that milepost does not know, names and values."""

# every header of an event that carries nothing unknown; others are looked through one by one
_PLAIN: Final = KNOWN_ATTRIBUTES | {"content-type", "traceparent", "tracestate"}


def decode(key: bytes | None, value: bytes | None, headers: Headers | None) -> Envelope:
    """The event in a record's key, value and headers.

    Raises `InvalidRecord`, with its documented reason, for everything that is no valid milepost event.
    """
    attributes = _attributes(headers or ())
    content_type = attributes.get("content-type", JSON)
    if content_type != JSON and is_structured(content_type):
        attributes, value = open_envelope(value, attributes)
    get = attributes.get
    if get("ce_specversion") != b"1.0":
        _refuse_version(attributes)
    if len(b"".join(attributes.values())) > MAX_ATTRIBUTE_BYTES:
        _check_sizes(attributes)
    kind = TYPES.get(get("ce_type", b"")) or _refuse_kind(attributes)
    tenant_id, session_id = _session(key, get("ce_tenantid"), get("ce_sessionid"), get("ce_partitionkey"))
    is_checkpoint = kind is Kind.CHECKPOINT_CREATED
    digest = None
    if is_checkpoint:
        digest = _check_state(value, get("content-type", JSON), get("ce_statesha256"))
    else:
        _check_no_value(value)
    # by position, in the order of its fields: by name it takes five times as long
    return Envelope(
        kind,
        tenant_id,
        session_id,
        read.uuid_bytes("ce_id", _required(attributes, "ce_id")),
        read.microseconds("ce_time", _required(attributes, "ce_time")),
        _source(_required(attributes, "ce_source")),
        read.identifier("ce_checkpointid", _required(attributes, "ce_checkpointid")) if is_checkpoint else None,
        read.identifier("ce_parentid", raw) if (raw := get("ce_parentid")) is not None else None,
        _uuid("ce_runid", raw) if (raw := get("ce_runid")) is not None else None,
        _integer("ce_step", raw) if (raw := get("ce_step")) is not None else None,
        _text("ce_nextnode", raw) if (raw := get("ce_nextnode")) is not None else None,
        read.text("ce_reason", raw) if (raw := get("ce_reason")) is not None else None,
        _text("ce_frameworkversion", raw) if (raw := get("ce_frameworkversion")) is not None else None,
        _integer("ce_schemaversion", raw) if (raw := get("ce_schemaversion")) is not None else None,
        read.boolean("ce_pinned", raw) if (raw := get("ce_pinned")) is not None else False,
        read.labels("ce_labels", raw) if (raw := get("ce_labels")) is not None else None,
        _uuid("ce_publisherid", raw) if (raw := get("ce_publisherid")) is not None else None,
        read.integer("ce_publisherseq", raw, 1) if (raw := get("ce_publisherseq")) is not None else None,
        _trace("traceparent", raw) if (raw := get("traceparent")) is not None else None,
        _trace("tracestate", raw) if (raw := get("tracestate")) is not None else None,
        None if _PLAIN.issuperset(attributes) else _extensions(attributes),
        value if is_checkpoint else None,
        digest,
    )


# these repeat from record to record
_uuid = lru_cache(maxsize=4_096)(read.uuid_bytes)
_text = lru_cache(maxsize=4_096)(read.text)
_integer = lru_cache(maxsize=4_096)(read.integer)


def _trace(name: str, value: bytes) -> str | None:
    """A header of W3C Trace Context. A receiver ignores one it can't read (section 4.3): it costs no checkpoint."""
    try:
        return read.text(name, value)
    except InvalidRecord:
        return None


@lru_cache(maxsize=1_024)
def _source(value: bytes) -> str:
    return read.text("ce_source", value)


def _attributes(headers: Headers) -> _Attributes:
    """The headers by name. A null is the absence of its attribute; a name may stand once."""
    found = dict(headers)
    if len(found) == len(headers) and None not in found.values():
        return cast("_Attributes", found)
    attributes = {name: value for name, value in headers if value is not None}
    if len(attributes) != len(headers):
        names = [name for name, value in headers if value is not None]
        for name in attributes:
            if names.count(name) > 1 and (name in _PLAIN or name.startswith("ce_")):
                raise InvalidRecord(
                    Reason.REPEATED_ATTRIBUTE,
                    f"expected {read.shown_name(name)} once, found it {names.count(name)} times",
                )
    return attributes


def _required(attributes: _Attributes, name: str) -> bytes:
    value = attributes.get(name)
    if value is None:
        _refuse_missing(name)
    return value


def _refuse_missing(name: str) -> NoReturn:
    raise InvalidRecord(Reason.MISSING_ATTRIBUTE, f"expected the attribute {name}, found none")


def _refuse_version(attributes: _Attributes) -> NoReturn:
    found = attributes.get("ce_specversion")
    if found is not None:
        raise InvalidRecord(Reason.UNSUPPORTED_SPECVERSION, f"expected CloudEvents 1.0, found {found!r:.40}")
    raise InvalidRecord(Reason.NOT_A_CLOUDEVENT, "expected the header ce_specversion, found none")


def _refuse_kind(attributes: _Attributes) -> NoReturn:
    found = _required(attributes, "ce_type")
    raise InvalidRecord(Reason.UNKNOWN_KIND, f"expected one of {_known()}, found {found!r:.100}")


@lru_cache(maxsize=32_768)
def _session(
    key: bytes | None, tenant: bytes | None, session: bytes | None, partition_key: bytes | None
) -> tuple[str, str]:
    """Whose event this is. The key must be made of the two ids: it chose the partition."""
    if tenant is None:
        _refuse_missing("ce_tenantid")
    if session is None:
        _refuse_missing("ce_sessionid")
    tenant_id = read.text("ce_tenantid", tenant)
    if (problem := tenant_problem(tenant_id)) is not None:
        raise InvalidRecord(Reason.INVALID_ATTRIBUTE, f"ce_tenantid: {problem}")
    session_id = read.identifier("ce_sessionid", session)
    expected = b"%b/%b" % (tenant, session)
    if key != expected:
        raise InvalidRecord(Reason.KEY_MISMATCH, f"expected the key {expected!r:.200}, found {key!r:.200}")
    if partition_key is not None and partition_key != expected:
        found = f"found {partition_key!r:.200}"
        raise InvalidRecord(Reason.KEY_MISMATCH, f"ce_partitionkey: expected {expected!r:.200}, {found}")
    return tenant_id, session_id


def _check_state(value: bytes | None, content_type: bytes, sent: bytes | None) -> bytes:
    """The digest of a state that is whole and valid; `sent` is the one that came with it."""
    if value is None:
        raise InvalidRecord(Reason.MISSING_STATE, "expected a state, found none")
    if content_type != JSON and not is_json(content_type):
        raise InvalidRecord(Reason.WRONG_CONTENT_TYPE, f"expected application/json, found {content_type!r:.100}")
    check_state(value)
    digest = sha256(value).digest()
    # compared as it is mostly written, before it is read
    if sent is not None and sent != digest.hex().encode() and read.digest("ce_statesha256", sent) != digest:
        raise InvalidRecord(Reason.DIGEST_MISMATCH, f"expected the SHA-256 {sent.decode()}, found {digest.hex()}")
    return digest


def _check_no_value(value: bytes | None) -> None:
    if value:
        raise InvalidRecord(Reason.UNEXPECTED_VALUE, f"expected a null value for a deletion, found {len(value)} bytes")


def _check_sizes(attributes: _Attributes) -> None:
    for name, value in attributes.items():
        if name.startswith("ce_") and len(value) > MAX_ATTRIBUTE_BYTES:
            read.refuse(name, f"at most {MAX_ATTRIBUTE_BYTES} bytes", f"{len(value)} bytes")


def _extensions(attributes: _Attributes) -> bytes | None:
    """Attributes that milepost does not know, for the history."""
    unknown: dict[str, str] = {}
    size = 0
    for name, value in attributes.items():
        if name.startswith("ce_") and name not in KNOWN_ATTRIBUTES:
            if len(name) > MAX_NAME_CHARACTERS:
                read.refuse(name, f"a name of at most {MAX_NAME_CHARACTERS} characters", f"{len(name)} characters")
            size += len(name) + len(value)
            if size > MAX_EXTENSIONS_BYTES:
                read.refuse(name, f"unknown attributes of at most {MAX_EXTENSIONS_BYTES} bytes in all", f"{size} bytes")
            try:
                unknown[name[3:]] = value.decode()
            except UnicodeDecodeError:
                read.refuse(name, "UTF-8", value)
    return _encode_json(unknown) if unknown else None


def _known() -> str:
    return ", ".join(known.decode() for known in TYPES)
