"""`milepost history`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import chain, islice
from typing import Final
from uuid import UUID

import click

from milepost.consumer.cli.options import a_moment, a_uuid, database_option, integrity_keys_option, json_option
from milepost.consumer.cli.output import print_array, print_table
from milepost.consumer.explaining import PAGE, Became, ExplainedEntry
from milepost.consumer.rules import Outcome
from milepost.consumer.store import CheckpointStore
from milepost.schemas import Kind

_COLUMNS: Final = [
    "seq",
    "kind",
    "became",
    "checkpoint_id",
    "step",
    "size",
    "event time",
    "log time",
    "position",
    "why",
]


@click.command("history")
@click.argument("tenant")
@click.argument("session")
@database_option
@click.option("--after-seq", default=0, type=click.IntRange(0), help="Those after this one.")
@click.option("--since", type=a_moment, metavar="TIME", help="Those that the log took at this time or later.")
@click.option("--until", type=a_moment, metavar="TIME", help="Those that the log took before this time.")
@click.option("--event-since", type=a_moment, metavar="TIME", help="The same by the event's own time.")
@click.option("--event-until", type=a_moment, metavar="TIME", help="The same by the event's own time.")
@click.option("--run", type=a_uuid, help="Of this run alone.")
@click.option("--kind", type=click.Choice([kind.value for kind in Kind]), help="Of this kind alone.")
@click.option("--outcome", type=click.Choice([each.value for each in Outcome]), help="With this outcome alone.")
@click.option("--became", type=click.Choice([each.value for each in Became]), help="Those that this became of.")
@click.option("--limit", type=click.IntRange(1), help="At most so many; all if left out.")
@integrity_keys_option
@json_option
def history(
    tenant: str,
    session: str,
    database: str,
    after_seq: int,
    since: datetime | None,
    until: datetime | None,
    event_since: datetime | None,
    event_until: datetime | None,
    run: UUID | None,
    kind: str | None,
    outcome: str | None,
    became: str | None,
    limit: int | None,
    integrity_keys: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show every event of a session, what became of it, and why. It outlives the states.

    What was pruned is told with the policy as it is now. With a key, all of the session's history is checked before any of it
    is shown. A TIME is RFC 3339, such as 2026-11-30T12:00:00Z.
    """
    with CheckpointStore(database, integrity_keys=integrity_keys) as store:
        if integrity_keys:
            store.check_history(tenant, session)
        found = store.iter_history(
            tenant,
            session,
            after_seq=after_seq,
            limit=limit,
            since=since,
            until=until,
            event_since=event_since,
            event_until=event_until,
            run_id=run,
            kind=Kind(kind) if kind is not None else None,
            outcome=Outcome(outcome) if outcome is not None else None,
            became=Became(became) if became is not None else None,
        )
        if as_json:
            print_array(found)
        else:
            _print_tables(found, f"no such event of session {session} of tenant {tenant}")


def _print_tables(found: Iterator[ExplainedEntry], empty: str) -> None:
    """A table for each page: the widths of its columns are its own, and a million rows never stand in memory."""
    print_table(_COLUMNS, _rows(islice(found, PAGE)), empty=empty)
    while (first := next(found, None)) is not None:
        print_table(_COLUMNS, _rows(chain([first], islice(found, PAGE - 1))), empty="")


def _rows(entries: Iterable[ExplainedEntry]) -> Iterator[tuple[object, ...]]:
    for entry in entries:
        yield (
            entry.seq,
            entry.kind.value,
            entry.became.value,
            entry.checkpoint_id,
            entry.step,
            entry.size,
            entry.event_time,
            entry.log_time,
            entry.position,
            entry.why or entry.reason,
        )


COMMANDS: Final = [history]
