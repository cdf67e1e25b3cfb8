"""`milepost get`, `list`, `list-run` and `sessions`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar
from uuid import UUID

import click

from milepost.consumer.cli.options import a_uuid, database_option, integrity_keys_option, json_option
from milepost.consumer.cli.output import print_array, print_table, write
from milepost.consumer.store import CheckpointStore
from milepost.consumer.views import CheckpointInfo

_PAGE: Final = 1_000
_Item = TypeVar("_Item")

limit_option = click.option("--limit", type=click.IntRange(1), help="At most so many; all if left out.")


@click.command("get")
@click.argument("tenant")
@click.argument("session")
@click.argument("checkpoint", required=False)
@database_option
@integrity_keys_option
def get(tenant: str, session: str, checkpoint: str | None, database: str, integrity_keys: tuple[str, ...]) -> int:
    """Write a checkpoint's state, and nothing else, to standard output. The newest when none is named."""
    with CheckpointStore(database, integrity_keys=integrity_keys) as store:
        found = store.latest(tenant, session) if checkpoint is None else store.get(tenant, session, checkpoint)
    if found is None:
        what = f"checkpoint {checkpoint}" if checkpoint is not None else "checkpoint"
        click.echo(f"milepost: no live {what} in session {session} of tenant {tenant}", err=True)
        return 1
    write(found.state)
    return 0


@click.command("list")
@click.argument("tenant")
@click.argument("session")
@database_option
@click.option("--run-id", type=a_uuid, help="Of this run alone.")
@click.option("--after-seq", default=0, type=click.IntRange(0), help="Those after this one.")
@click.option("--newest-first", is_flag=True)
@limit_option
@integrity_keys_option
@json_option
def list_session(
    tenant: str,
    session: str,
    database: str,
    run_id: UUID | None,
    after_seq: int,
    newest_first: bool,
    limit: int | None,
    integrity_keys: tuple[str, ...],
    as_json: bool,
) -> None:
    """List a session's live checkpoints, oldest to newest."""
    with CheckpointStore(database, integrity_keys=integrity_keys) as store:
        found = store.list(tenant, session, run_id=run_id, after_seq=after_seq, limit=limit, newest_first=newest_first)
    _print_checkpoints(found, as_json, f"no live checkpoint in session {session} of tenant {tenant}")


@click.command("list-run")
@click.argument("tenant")
@click.argument("run", type=a_uuid)
@database_option
@limit_option
@integrity_keys_option
@json_option
def list_run(
    tenant: str, run: UUID, database: str, limit: int | None, integrity_keys: tuple[str, ...], as_json: bool
) -> None:
    """List a run's live checkpoints in all of a tenant's sessions."""
    with CheckpointStore(database, integrity_keys=integrity_keys) as store:
        found = store.list_by_run(tenant, run, limit=limit)
    _print_checkpoints(found, as_json, f"no live checkpoint of run {run} of tenant {tenant}")


@click.command("sessions")
@click.argument("tenant")
@database_option
@click.option("--after", help="Those after this session id.")
@limit_option
@integrity_keys_option
@json_option
def sessions(
    tenant: str,
    database: str,
    after: str | None,
    limit: int | None,
    integrity_keys: tuple[str, ...],
    as_json: bool,
) -> None:
    """List a tenant's sessions, by their ids."""
    with CheckpointStore(database, integrity_keys=integrity_keys) as store:
        found = _pages(
            lambda page, last: store.sessions(tenant, after=last.session_id if last is not None else after, limit=page),
            limit,
        )
        if as_json:
            print_array(found)
            return
        print_table(
            ["session_id", "last_seq", "live", "bytes", "newest", "last event", "deleted"],
            (
                (
                    session.session_id,
                    session.last_seq,
                    session.live_checkpoints,
                    session.live_bytes,
                    session.newest_checkpoint_id,
                    session.last_event_time,
                    session.deleted_at,
                )
                for session in found
            ),
            empty=f"no session of tenant {tenant}",
        )


def _pages(read: Callable[[int, _Item | None], Sequence[_Item]], limit: int | None) -> Iterator[_Item]:
    """Read page after page, so that a million rows never stand in memory."""
    last: _Item | None = None
    left = limit
    while left is None or left > 0:
        size = _PAGE if left is None else min(_PAGE, left)
        page = read(size, last)
        yield from page
        if len(page) < size:
            return
        last = page[-1]
        left = left - len(page) if left is not None else None


def _print_checkpoints(found: Sequence[CheckpointInfo], as_json: bool, empty: str) -> None:
    if as_json:
        print_array(found)
        return
    print_table(
        ["session_id", "seq", "checkpoint_id", "parent_id", "run_id", "step", "size", "created_at", "pinned"],
        (
            (
                info.session_id,
                info.seq,
                info.checkpoint_id,
                info.parent_id,
                info.run_id,
                info.step,
                info.size,
                info.created_at,
                info.pinned,
            )
            for info in found
        ),
        empty=empty,
    )


COMMANDS: Final = [get, list_session, list_run, sessions]
