"""What a batch must know before it can be planned: heads, windows, ids seen before, policies. Reads only."""

from __future__ import annotations

from collections.abc import Sequence

from milepost.consumer import queries
from milepost.consumer.database import Connection, scalar
from milepost.consumer.heads import Head, HeadCache, SessionKey
from milepost.consumer.integrity.checks import Signature
from milepost.consumer.integrity.signer import Signer, require_unsigned
from milepost.consumer.numbers import numbered
from milepost.consumer.plan import CheckpointKey, EventKey, Known, PublisherKey
from milepost.consumer.records import LogRecord
from milepost.consumer.retention import Live, Policies, policies_of
from milepost.consumer.rules import Seen


def load_policies(connection: Connection) -> Policies:
    """The retention policies as they are now."""
    statements = queries.load("materialize")
    version = scalar(connection, statements["policies_version"])
    rows = connection.execute(statements["policies"]).fetchall()
    return policies_of(int(str(version)), [(row[0], row[1], row[2], row[3], row[4]) for row in rows])


def load_heads(
    connection: Connection,
    cache: HeadCache,
    keys: set[SessionKey],
    records: Sequence[LogRecord],
    *,
    windows: bool = True,
    signer: Signer | None = None,
) -> dict[SessionKey, Head]:
    """The head of each session of a batch: cached, stored, or new; stored ones with their windows, unless told otherwise.

    Raises `Tampered` for what does not fit its MAC, `WrongView` when a stored head is signed and there is no signer, or the
    other way round.
    """
    heads = {key: head for key in keys if (head := cache.get(key)) is not None}
    if missing := [key for key in keys if key not in heads]:
        stored = _stored_heads(connection, missing, windows, signer)
        heads.update(stored)
        for record in records:
            if (event := record.event) is not None and (key := (event.tenant_id, event.session_id)) not in heads:
                heads[key] = Head(*key, record.partition)
    return heads


def _stored_heads(
    connection: Connection, keys: list[SessionKey], windows: bool, signer: Signer | None
) -> dict[SessionKey, Head]:
    statements = queries.load("materialize")
    names = _columns(keys)
    rows = connection.execute(statements["heads"], names, binary=True).fetchall()
    heads = {}
    for *columns, mac, mac_key in rows:
        head = heads[columns[0], columns[1]] = Head(*columns)
        if signer is not None:
            signer.check_head(head, Signature(mac, mac_key))
        elif mac_key is not None:
            require_unsigned(head, Signature(mac, mac_key))
    if windows and signer is not None:
        _checked_windows(connection, heads, names, signer)
    elif windows and any(head.live_checkpoints for head in heads.values()):
        for tenant_id, session_id, *live in connection.execute(statements["windows"], names, binary=True):
            heads[tenant_id, session_id].window.append(Live(*live))
    return heads


def _checked_windows(
    connection: Connection, heads: dict[SessionKey, Head], names: list[list[str]], signer: Signer
) -> None:
    """The windows, once all rows that they are made of were checked, and that none is missing."""
    found: dict[SessionKey, list[tuple[object, ...]]] = {key: [] for key in heads}
    for row in connection.execute(queries.load("materialize")["signed_windows"], names, binary=True):
        found.setdefault((row[0], row[1]), []).append(row)
    for key, head in heads.items():
        head.window.extend(signer.check_window(head, found[key]))


def load_known(connection: Connection, heads: dict[SessionKey, Head], records: Sequence[LogRecord]) -> Known:
    """What the database knows of the ids that the batch may repeat.

    An id above the greatest one of its session is new, so that in the common case nothing is asked.
    """
    event_keys, checkpoint_keys = _candidates(heads, records)
    statements = queries.load("materialize")
    events: dict[EventKey, Seen] = {}
    checkpoints: dict[CheckpointKey, Seen] = {}
    if event_keys:
        columns = [*_columns([key for key, _ in event_keys]), [event_id.hex() for _, event_id in event_keys]]
        for tenant_id, session_id, event_id, *seen in connection.execute(statements["known_events"], columns):
            events[(tenant_id, session_id), event_id] = Seen(*seen)
    if checkpoint_keys:
        columns = [
            *_columns([key for key, _ in checkpoint_keys]),
            [checkpoint_id for _, checkpoint_id in checkpoint_keys],
        ]
        for tenant_id, session_id, checkpoint_id, *seen in connection.execute(statements["known_checkpoints"], columns):
            checkpoints[(tenant_id, session_id), checkpoint_id] = Seen(*seen)
    return Known(events, checkpoints, _numbers(connection, records))


def _numbers(connection: Connection, records: Sequence[LogRecord]) -> dict[PublisherKey, int]:
    """The highest number seen of each publisher of the batch, in each partition."""
    keys = {(found.publisher_id, record.partition) for record in records if (found := numbered(record)) is not None}
    if not keys:
        return {}
    columns = [[publisher_id for publisher_id, _ in keys], [partition for _, partition in keys]]
    rows = connection.execute(queries.load("materialize")["publisher_numbers"], columns)
    return {(publisher_id, partition): highest for publisher_id, partition, highest in rows}


def _candidates(
    heads: dict[SessionKey, Head], records: Sequence[LogRecord]
) -> tuple[list[EventKey], list[CheckpointKey]]:
    """Ids at or below the greatest one that stands before them. Sessions without stored events have none to ask for."""
    greatest_events: dict[SessionKey, bytes] = {}
    greatest_checkpoints: dict[SessionKey, str] = {}
    events: list[EventKey] = []
    checkpoints: list[CheckpointKey] = []
    for record in records:
        if (event := record.event) is None:
            continue
        key = (event.tenant_id, event.session_id)
        if key not in greatest_events:
            head = heads[key]
            if not head.last_seq:
                continue
            greatest_events[key], greatest_checkpoints[key] = head.max_event_id, head.max_checkpoint_id
        if event.event_id <= greatest_events[key]:
            events.append((key, event.event_id))
        else:
            greatest_events[key] = event.event_id
        if event.checkpoint_id is None:
            continue
        if event.checkpoint_id <= greatest_checkpoints[key]:
            checkpoints.append((key, event.checkpoint_id))
        else:
            greatest_checkpoints[key] = event.checkpoint_id
    # an id that came again and again is asked for once
    return list(dict.fromkeys(events)), list(dict.fromkeys(checkpoints))


def _columns(keys: Sequence[SessionKey]) -> list[list[str]]:
    return [[tenant_id for tenant_id, _ in keys], [session_id for _, session_id in keys]]
