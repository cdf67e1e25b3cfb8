"""Why a record stands in the quarantine: the documented codes.

A code never changes its meaning; operators' scripts rely on it. docs/quarantine.md explains each.
"""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """The reason code of a quarantined record."""

    NOT_A_CLOUDEVENT = "not_a_cloudevent"
    """Neither `ce_specversion` nor a CloudEvents content type: no milepost event."""
    UNREADABLE_HEADERS = "unreadable_headers"
    """The headers could not be read at all: a name is not UTF-8."""
    UNSUPPORTED_SPECVERSION = "unsupported_specversion"
    """A CloudEvents version other than 1.0."""
    BATCHED_MODE = "batched_mode"
    """CloudEvents' batched content mode: one record must be one event."""
    BAD_ENVELOPE = "bad_envelope"
    """Structured mode, and the envelope is not a JSON object that can be cut apart."""
    UNKNOWN_KIND = "unknown_kind"
    """A `ce_type` that this version does not know; a later version may, so retry then."""
    MISSING_ATTRIBUTE = "missing_attribute"
    """A required attribute is absent."""
    REPEATED_ATTRIBUTE = "repeated_attribute"
    """An attribute stands more than once."""
    INVALID_ATTRIBUTE = "invalid_attribute"
    """An attribute's value breaks its rule."""
    KEY_MISMATCH = "key_mismatch"
    """The record's key is not `tenant/session`: it may lie in another session's partition."""
    WRONG_PARTITION = "wrong_partition"
    """The record lies in another partition than its key goes to: its session's order would be nobody's."""
    WRONG_CONTENT_TYPE = "wrong_content_type"
    """The state is not declared as JSON."""
    MISSING_STATE = "missing_state"
    """A checkpoint with a null value."""
    UNEXPECTED_VALUE = "unexpected_value"
    """A deletion with a value."""
    STATE_EMPTY = "state_empty"
    """The state has no bytes, or only white space."""
    STATE_NOT_JSON = "state_not_json"
    """The state is no JSON text (RFC 8259)."""
    STATE_INVALID_UTF8 = "state_invalid_utf8"
    """The state is not UTF-8."""
    STATE_TOO_DEEP = "state_too_deep"
    """The state nests deeper than 5,000."""
    STATE_TOO_LARGE = "state_too_large"
    """The state is over 16 MiB."""
    DIGEST_MISMATCH = "digest_mismatch"
    """The state does not have the digest that its publisher sent along."""
    REFUSED_BY_POSTGRES = "refused_by_postgres"
    """Postgres would not take the row."""
