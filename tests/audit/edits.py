"""Edits of a filled view by SQL, each with what must be named: `table.field`, or the table for rows too many or missing."""

from __future__ import annotations

from typing import NamedTuple


class Edit(NamedTuple):
    """One edit."""

    what: str
    statements: list[str]
    expected: set[str]


ONE = "tenant_id = 'acme' and session_id = 'one'"
TWO = "tenant_id = 'acme' and session_id = 'two'"
C = f"update milepost.checkpoints set %s where {ONE} and seq = 11"
H = f"update milepost.history set %s where {ONE} and seq = 5"
S = f"update milepost.sessions set %s where {ONE}"
P = "update milepost.partitions set %s where events = (select max(events) from milepost.partitions)"
Q = "update milepost.quarantine set %s where status = 'open'"
FORGED = '{"$type":0,"number":10,"of":"xne"}'
STATE = f"state = '{FORGED}'"
DIGEST = f"sha256 = sha256(convert_to('{FORGED}', 'UTF8'))"
COPY = """
    insert into milepost.checkpoints (tenant_id, session_id, seq, checkpoint_id, event_id, created_at, pinned, size, sha256,
                                      log_time, partition, "offset", state)
    select tenant_id, '{session}', {seq}, '{checkpoint}', event_id, created_at, pinned, size, sha256,
           log_time, partition, "offset", state
    from milepost.checkpoints where tenant_id = 'acme' and session_id = 'one' and seq = 12"""
SWAP = """
    update milepost.checkpoints c set state = o.state, sha256 = o.sha256, size = o.size
    from milepost.checkpoints o
    where c.tenant_id = 'acme' and c.session_id = 'one' and o.tenant_id = 'acme' and o.session_id = 'one'
        and c.seq in (11, 12) and o.seq = 23 - c.seq"""
OLD_CONTENT = """
    update milepost.checkpoints c
    set state = o.state, sha256 = o.sha256, event_id = o.event_id, parent_id = o.parent_id, step = o.step
    from milepost.checkpoints o
    where c.tenant_id = 'acme' and c.session_id = 'one' and o.tenant_id = 'acme' and o.session_id = 'one'
        and c.seq = 12 and o.seq = 9"""
FITTING = "live_checkpoints = live_checkpoints - 1, live_bytes = live_bytes - 33, pruned_seq = 8"


def fields(table: str, *names: str) -> set[str]:
    """Fields of one table."""
    return {f"{table}.{name}" for name in names}


CHECKPOINTS = [
    Edit("a state's byte", [C % STATE], {"checkpoints.state"}),
    Edit("state and digest together", [C % f"{STATE}, {DIGEST}"], {"checkpoints.sha256"}),
    Edit(
        "the newest two deleted",
        [f"delete from milepost.checkpoints where {ONE} and seq in (11, 12)"],
        {"checkpoints", *fields("sessions", "live_checkpoints", "live_bytes")},
    ),
    Edit(
        "a middle one deleted",
        [f"delete from milepost.checkpoints where {ONE} and seq = 10"],
        {"checkpoints", *fields("sessions", "live_checkpoints", "live_bytes")},
    ),
    Edit(
        "the oldest deleted, and the head made to fit",
        [f"delete from milepost.checkpoints where {ONE} and seq = 8", S % FITTING],
        {"checkpoints"},
    ),
    Edit("two states swapped", [SWAP], {"checkpoints.sha256"}),
    Edit(
        "a newest forged",
        [
            COPY.format(session="one", seq=14, checkpoint="forged"),
            S % "newest_seq = 14, newest_checkpoint_id = 'forged', live_checkpoints = live_checkpoints + 1",
        ],
        {"checkpoints", *fields("sessions", "newest_seq", "newest_checkpoint_id", "live_bytes")},
    ),
    Edit(
        "another session's genuine row",
        [
            f"delete from milepost.checkpoints where {TWO} and seq = 7",
            COPY.format(session="two", seq=7, checkpoint="c011"),
        ],
        fields("checkpoints", "event_id", "parent_id", "sha256", "log_time", "labels", "offset", "partition"),
    ),
    Edit(
        "old content in the newest slot",
        [OLD_CONTENT],
        fields("checkpoints", "event_id", "parent_id", "step", "sha256", "size"),
    ),
    Edit("a label", [C % 'labels = \'{"workflow": "x"}\''], {"checkpoints.labels"}),
    Edit("a parent", [C % "parent_id = 'c005'"], {"checkpoints.parent_id"}),
    Edit("a time", [C % "created_at = created_at + interval '1 s'"], {"checkpoints.created_at"}),
    Edit("the log's time", [C % "log_time = log_time + interval '1 s'"], {"checkpoints.log_time"}),
    Edit("labels that are none", [C % "labels = '[1]'"], {"checkpoints.labels"}),
    Edit("a size", [C % "size = 1"], {"checkpoints.size", "sessions.live_bytes"}),
]

HISTORY = [
    Edit(
        "an outcome",
        [H % "outcome = 'stale'"],
        {*fields("history", "outcome", "chain"), *fields("partitions", "applied", "stale")},
    ),
    Edit("a column that the chain covers", [H % "reason = 'x'"], {"history.chain"}),
    Edit("an unknown attribute", [H % 'extensions = \'{"a":"b"}\''], {"history.chain"}),
    Edit("a chain", [H % "chain = sha256('x')"], {"history.chain"}),
    Edit("a topic", [H % "topic = 'x'"], {"history.topic"}),
    Edit(
        "an offset",
        [H % '"offset" = 0'],
        {"history.offset", *fields("publishers", "events", "first_seen")},
    ),
    Edit(
        "an offset beyond",
        [H % '"offset" = 999'],
        {"history.offset", "publishers.events", "partitions.log_time"},
    ),
    Edit(
        "an event deleted",
        [f"delete from milepost.history where {ONE} and seq = 5"],
        {"history", "publishers.events", *fields("partitions", "events", "applied", "state_bytes")},
    ),
    Edit("a head deleted", [f"delete from milepost.sessions where {ONE}"], {"sessions"}),
    Edit(
        "a session's events deleted",
        [f"delete from milepost.history where {TWO}"],
        {"checkpoints", "sessions", *fields("partitions", "events", "applied", "state_bytes")}
        | fields("publishers", "events", "first_seen"),
    ),
    Edit(
        "a deletion undone",
        [f"update milepost.sessions set deleted_seq = null, deleted_at = null where {TWO}"],
        fields("sessions", "deleted_seq", "deleted_at"),
    ),
]

_HEAD = (
    "last_seq = last_seq + 1",
    "newest_seq = 11",
    "newest_checkpoint_id = 'c010'",
    "first_event_time = now()",
    "last_event_time = now()",
    "live_checkpoints = 4",
    "live_bytes = live_bytes + 1",
    "deleted_at = now()",
    "max_event_id = gen_random_uuid()",
    "max_checkpoint_id = 'z'",
    "chain = sha256('x')",
    "partition = partition + 1",
)
_PARTITION = (
    "events = events + 1",
    "applied = applied - 1",
    "duplicates = 7",
    "stale = 1",
    "conflicts = 1",
    "quarantined = quarantined + 1",
    "state_bytes = 0",
    "log_time = now()",
    "topic_id = 'zzz'",
)
HEADS = [
    Edit("all of a head", [S % ", ".join(_HEAD)], fields("sessions", *(each.split()[0] for each in _HEAD))),
    Edit("of a head what was pruned", [S % "pruned_seq = 6"], {"sessions.pruned_seq"}),
]
PARTITIONS = [
    Edit(
        "all of a partition",
        [P % ", ".join(_PARTITION)],
        fields("partitions", *(each.split()[0] for each in _PARTITION)),
    )
]

OTHERS = [
    Edit("a reason", [Q % "reason = 'bad_envelope'"], {"quarantine.reason"}),
    Edit("headers that are none", [Q % "headers = '[7]'"], {"quarantine.headers"}),
    Edit("a topic of the quarantine", [Q % "topic = 'x'"], {"quarantine.topic"}),
    Edit(
        "a quarantined record deleted",
        ["delete from milepost.quarantine where status = 'open'"],
        fields("partitions", "events", "quarantined"),
    ),
    Edit(
        "a retry undone",
        ["update milepost.quarantine set status = 'open' where status = 'retried'"],
        {"quarantine.status"},
    ),
    Edit(
        "a retry forged",
        [Q % "status = 'retried'"],
        {"history", *fields("partitions", "events", "quarantined")},
    ),
    Edit("a publisher", ["update milepost.publishers set events = events + 1"], {"publishers.events"}),
    Edit("publishers deleted", ["delete from milepost.publishers"], {"publishers"}),
]

SEEN_BY_ITSELF = [*CHECKPOINTS, *HISTORY, *HEADS, *PARTITIONS, *OTHERS]
"""Noticed by the view against itself, and so by everything else."""

SEEN_BY_THE_LOG = [
    Edit("the log's time of an event", [H % "log_time = log_time + interval '1 microsecond'"], {"history.log_time"}),
    Edit("a quarantined value", [Q % "value = 'x'"], {"quarantine.value"}),
    Edit("a quarantined key", [Q % "key = null"], {"quarantine.key"}),
    Edit("a digest", [P % "digest = sha256('x')"], {"partitions.digest"}),
    Edit("a position beyond the log", [P % "next_offset = next_offset + 1"], {"partitions.next_offset"}),
]
"""Noticed by the view against the log alone."""
