"""Do the rows of a session agree with each other: live rows with their events, the head with all of them."""

from __future__ import annotations

from operator import attrgetter
from typing import Final

import msgspec

from milepost.consumer.audit.findings import ABSENT, PRESENT, Findings
from milepost.consumer.audit.live import LiveSet
from milepost.consumer.audit.rows import Entry
from milepost.consumer.heads import Head
from milepost.consumer.integrity import CheckpointFacts, HeadFacts
from milepost.consumer.integrity.facts import labels_of

_SAME: Final = (
    "checkpoint_id",
    "event_id",
    "parent_id",
    "run_id",
    "step",
    "next_node",
    "framework_version",
    "schema_version",
    "pinned",
    "size",
    "sha256",
)
"""Fields that a live row and its event have in common, by one name."""


_same: Final = attrgetter(*_SAME)
_where: Final = attrgetter("created_at", "log_time", "partition", "offset")
_HEAD: Final = (
    "partition",
    "last_seq",
    "newest_seq",
    "newest_checkpoint_id",
    "first_event_time",
    "last_event_time",
    "live_checkpoints",
    "live_bytes",
    "deleted_at",
    "deleted_seq",
    "chain",
)


def compare_live(findings: Findings, entry: Entry, row: CheckpointFacts) -> None:
    """A live row against its event."""
    event = entry.event
    if _same(event) != _same(row):
        for field in _SAME:
            if getattr(event, field) != getattr(row, field):
                findings.add("checkpoints", row.key, field, getattr(event, field), getattr(row, field))
    if (event.event_time, entry.log_time, entry.partition, entry.offset) != _where(row):
        for field, expected, found in (
            ("created_at", event.event_time, row.created_at),
            *((name, getattr(entry, name), getattr(row, name)) for name in ("log_time", "partition", "offset")),
        ):
            if expected != found:
                findings.add("checkpoints", row.key, field, expected, found)
    try:
        labels = labels_of(event.labels)
    except (msgspec.DecodeError, UnicodeDecodeError):
        findings.add("history", entry.key, "labels", "a JSON object of strings", event.labels)
    else:
        if labels != row.labels:
            findings.add("checkpoints", row.key, "labels", labels, row.labels)


def compare_head(findings: Findings, found: HeadFacts, now: Head, *, is_whole: bool) -> None:
    """A head against what history and the live rows make of it; of a session in part, ids seen may be greater."""
    for field in _HEAD:
        findings.compare("sessions", found.key, field, getattr(now, field), getattr(found, field))
    for field, seen, stored in (
        ("max_event_id", now.max_event_id, found.max_event_id),
        ("max_checkpoint_id", now.max_checkpoint_id.encode(), (found.max_checkpoint_id or "").encode()),
    ):
        if stored < seen or (is_whole and stored != seen):
            findings.add("sessions", found.key, field, seen, stored)


def check_live_set(findings: Findings, head: HeadFacts, live: LiveSet, count: int) -> None:
    """The live rows against the policies and against the head's `pruned_seq`."""
    surplus, missing = live.surplus(), live.missing()
    if surplus is not None:
        expected = f"{ABSENT}: beyond what the retention policy keeps"
        findings.add("checkpoints", {**head.key, "seq": str(surplus.seq)}, None, expected, PRESENT)
    for seq in missing:
        _say_missing(findings, head, seq, "kept by the retention policy")
    if live.pruned_seq == head.pruned_seq or not (live.is_whole or live.pruned_seq):
        return
    if count == head.live_checkpoints:  # all rows are there, so it is the head that was changed
        findings.add("sessions", head.key, "pruned_seq", live.pruned_seq, head.pruned_seq)
    elif live.pruned_seq > head.pruned_seq:
        said = set(missing)
        for seq in live.beyond:
            if seq not in said:
                _say_missing(findings, head, seq, f"retention removed up to seq {head.pruned_seq} alone")
        findings.count("checkpoints", live.beyond_count - len(live.beyond))
    elif surplus is None:
        expected = f"{ABSENT}: retention removed up to seq {head.pruned_seq}"
        findings.add("checkpoints", {**head.key, "seq": str(live.window_seq)}, None, expected, PRESENT)


def _say_missing(findings: Findings, head: HeadFacts, seq: int, why: str) -> None:
    findings.add("checkpoints", {**head.key, "seq": str(seq)}, None, f"{PRESENT}: {why}", ABSENT)
