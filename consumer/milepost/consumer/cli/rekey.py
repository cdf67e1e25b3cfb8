"""`milepost audit rekey`."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Final

import click
from rich.console import Console

from milepost.consumer import queries
from milepost.consumer.cli.bars import bars
from milepost.consumer.cli.options import database_option, integrity_keys_option, json_option
from milepost.consumer.cli.output import print_facts, print_json
from milepost.consumer.database import connect, scalar, translated
from milepost.consumer.integrity.keys import keyring
from milepost.consumer.integrity.rekey import Rekey, Rekeyed
from milepost.consumer.materializer import become_writer
from milepost.consumer.migrate import require_current
from milepost.consumer.processes import Stop

logger = logging.getLogger(__name__)
_LINE_SECONDS: Final = 10.0


@click.command("rekey")
@database_option
@integrity_keys_option
@click.option("--unsigned", is_flag=True, help="Sign sessions that have no MAC, too, as they are.")
@json_option
def rekey(database: str, integrity_keys: tuple[str, ...], unsigned: bool, as_json: bool) -> int:
    """Sign all of the view with the first --integrity-key, having checked all of it under the keys given.

    Beside live consumers that have the new key. Stopped and started again, it goes on. Exits with 1 for what was changed behind
    the product's back, with 3 when a consumer that lacks the key has written meanwhile.
    """
    logging.getLogger().setLevel(min(logging.getLogger().level, logging.INFO))
    keys = keyring(integrity_keys)
    if keys is None:
        raise click.UsageError("expected --integrity-key FILE, or MILEPOST_INTEGRITY_KEY, found neither")
    stop = Stop()
    with closing(connect(database, application="milepost-rekey")) as connection, translated(database):
        require_current(connection)
        become_writer(connection)
        with _telling(int(str(scalar(connection, queries.load("rekey")["sessions_expected"])))) as tell:
            done = Rekey(connection, keys, unsigned=unsigned).run(stop, tell)
    if as_json:
        print_json({"mac_key": keys.signing_id, **{name: getattr(done, name) for name in done.__struct_fields__}})
    else:
        print_facts(
            [
                ("mac_key", keys.signing_id.hex()),
                ("sessions", f"{done.sessions}, {done.sessions_signed} of them signed anew"),
                ("checkpoints", f"{done.checkpoints}, {done.checkpoints_signed} of them signed anew"),
                ("complete", done.complete),
            ]
        )
    if not done.complete:
        click.echo("milepost: stopped before the end; the same command goes on", err=True)
        return 3
    return 0


@contextmanager
def _telling(expected: int) -> Iterator[Callable[[Rekeyed], None]]:
    """A bar on a terminal, a log line every ten seconds elsewhere."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines()
        return
    with bars(console, transient=False) as shown:
        task = shown.add_task("sessions", total=expected or None)
        yield lambda done: shown.update(task, completed=done.sessions)


class _Lines:
    def __init__(self) -> None:
        self._next = time.monotonic() + _LINE_SECONDS

    def __call__(self, done: Rekeyed) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _LINE_SECONDS
            logger.info("%d sessions and %d checkpoints checked", done.sessions, done.checkpoints)


COMMANDS: Final = [rekey]
