"""Keyed integrity: live rows and session heads carry an HMAC, so that who lacks the key cannot change them unnoticed."""

from milepost.consumer.integrity.checks import (
    Finding,
    Signature,
    check_head,
    check_live_set,
    check_member,
    check_newest,
    check_row,
)
from milepost.consumer.integrity.facts import CheckpointFacts, HeadFacts, checkpoint_facts, head_facts
from milepost.consumer.integrity.keys import IntegrityKey, Keyring, KeySource, keyring

__all__ = [
    "CheckpointFacts",
    "Finding",
    "HeadFacts",
    "IntegrityKey",
    "KeySource",
    "Keyring",
    "Signature",
    "check_head",
    "check_live_set",
    "check_member",
    "check_newest",
    "check_row",
    "checkpoint_facts",
    "head_facts",
    "keyring",
]
