"""`milepost replay`."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from datetime import datetime
from typing import Final

import click
from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from milepost.consumer import compare as views
from milepost.consumer import kafka as clients
from milepost.consumer import policies
from milepost.consumer.cli.options import integrity_keys_option, json_option, log_options
from milepost.consumer.cli.output import print_facts, print_json
from milepost.consumer.config import ConsumeConfig
from milepost.consumer.database import Connection, connect, translated
from milepost.consumer.log import identify
from milepost.consumer.migrate import require_current
from milepost.consumer.processes import Stop
from milepost.consumer.replay import ReplayReport, ReplayRequest
from milepost.consumer.replay import replay as rebuild
from milepost.consumer.replay.run import Tell
from milepost.consumer.replay.scratch import scratch_database
from milepost.consumer.replay.until import at_positions, at_time
from milepost.consumer.replay.worker import Progress
from milepost.consumer.retention import DEFAULT_NEWEST
from milepost.consumer.supervisor import consume
from milepost.schemas import Position
from milepost.schemas.ids import id_problem, tenant_problem

logger = logging.getLogger(__name__)
_LINE_SECONDS: Final = 10.0


def a_time(value: str) -> datetime:
    """A time with its offset from UTC, or a usage error."""
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise click.BadParameter(f"expected a time with its offset, such as 2026-11-30T12:00:00Z, found {value!r}")
    return moment


def a_position(value: str) -> Position:
    """A position in the log, or a usage error."""
    try:
        return Position.parse(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command("replay")
@log_options
@click.option(
    "--into",
    "database",
    metavar="CONNINFO",
    help="An empty database: the new view. With --verify it may be left out; one is made for the time being.",
)
@click.option("--processes", default=1, show_default=True, type=click.IntRange(1, 1_000), help="Each takes its share.")
@click.option(
    "--retain", type=click.IntRange(1), help="How many checkpoints of a session stay by default; 50 if left out."
)
@click.option("--policies-from", metavar="CONNINFO", help="Take the retention policies of this view over.")
@click.option("--until", type=a_time, metavar="TIME", help="The log as it was then, by its own clock.")
@click.option(
    "--until-position",
    type=a_position,
    multiple=True,
    metavar="P",
    help="Up to this record; may be given several times.",
)
@click.option("--tenant", help="This tenant's part alone; the view cannot be continued.")
@click.option("--session", help="This session of the tenant alone.")
@click.option("--accept-missing", is_flag=True, help="Go on where the log has lost its beginning.")
@click.option("--follow", is_flag=True, help="Go on into the live log, as milepost consume does.")
@click.option(
    "--verify",
    "against",
    metavar="CONNINFO",
    help="Compare with this view as it is now; exit status 1 when they differ.",
)
@integrity_keys_option
@json_option
def replay(
    kafka: str,
    topic: str,
    database: str | None,
    processes: int,
    retain: int | None,
    policies_from: str | None,
    until: datetime | None,
    until_position: tuple[Position, ...],
    tenant: str | None,
    session: str | None,
    accept_missing: bool,
    follow: bool,
    against: str | None,
    integrity_keys: tuple[str, ...],
    as_json: bool,
) -> int:
    """Rebuild the view from the log. Killed and started again with the same command, it goes on from what was committed."""
    logging.getLogger().setLevel(min(logging.getLogger().level, logging.INFO))
    _check_usage(click.get_current_context().params)
    stop = Stop()
    with ExitStack() as stack:
        left = stack.enter_context(views.snapshot(against)) if against is not None else None
        if not database:
            database = stack.enter_context(scratch_database(against or ""))
        request = ReplayRequest(
            kafka=kafka,
            topic=topic,
            database=database,
            processes=processes,
            newest=retain,
            policies=_policies(policies_from, left),
            until=_until(kafka, topic, until, until_position) if left is None else _stands(left),
            tenant_id=tenant,
            session_id=session,
            integrity_keys=integrity_keys,
            follow=follow,
            accept_missing=accept_missing,
        )
        with _telling() as tell:
            report = rebuild(request, stop=stop, tell=tell)
        comparison = None
        if report.complete and left is not None:
            comparison = views.compare(left, stack.enter_context(views.snapshot(database)))
    _print(report, request, comparison, as_json)
    if not report.complete:
        click.echo("milepost: stopped before the end; the same command goes on from here", err=True)
        return 3
    if comparison is not None and not comparison.equal:
        return 1
    if follow:
        config = ConsumeConfig(kafka=kafka, topic=topic, database=database, integrity_keys=integrity_keys)
        consume(config, processes=processes, stop=stop)
    return 0


def _check_usage(given: Mapping[str, object]) -> None:
    """Refuse what does not go together."""
    apart = (
        ("retain", "policies_from"),
        ("until", "until_position"),
        *(("against", name) for name in ("until", "until_position", "tenant", "retain")),
        *(("follow", name) for name in ("until", "until_position", "tenant")),
    )
    for left, right in apart:
        if given[left] not in (None, (), False) and given[right] not in (None, (), False):
            first, second = ("--" + name.replace("_", "-").replace("against", "verify") for name in (left, right))
            raise click.UsageError(f"expected {first} or {second}, found both")
    if given["session"] is not None and given["tenant"] is None:
        raise click.UsageError("expected --tenant beside --session")
    if not given["database"] and (given["against"] is None or given["database"] is not None or given["follow"]):
        raise click.UsageError("expected --into and a database, or --verify alone")
    problems = {
        "--tenant": None if given["tenant"] is None else tenant_problem(given["tenant"]),
        "--session": None if given["session"] is None else id_problem(given["session"]),
    }
    for name, problem in problems.items():
        if problem is not None:
            raise click.UsageError(f"{name}: {problem}")


def _policies(database: str | None, left: Connection | None) -> tuple[policies.PolicyRow, ...] | None:
    """The policies to take over: those of a view named for it, else those of the one to compare with."""
    if database is not None:
        with closing(connect(database)) as connection, translated(database):
            require_current(connection)
            return tuple(policies.show(connection))
    return tuple(policies.show(left)) if left is not None else None


def _stands(left: Connection) -> dict[int, int]:
    """Where a view stands in its snapshot."""
    return dict(left.execute("select partition, next_offset from milepost.partitions").fetchall())


def _until(kafka: str, topic: str, moment: datetime | None, positions: tuple[Position, ...]) -> dict[int, int] | None:
    if moment is None and not positions:
        return None
    client = clients.admin(kafka)
    log = identify(client, kafka, topic)
    if moment is not None:
        return at_time(client, kafka, log, moment)
    return at_positions(client, kafka, log, positions)


def _print(report: ReplayReport, request: ReplayRequest, comparison: views.Comparison | None, as_json: bool) -> None:
    facts: dict[str, object] = {
        "complete": report.complete,
        "resumed": report.resumed,
        "events": report.events,
        **report.applied.counts,
        "state_bytes": report.state_bytes,
        "states_written": report.written,
        "states_skipped": report.skipped,
        "log_digest": report.log_digest,
        "seconds": round(report.seconds, 2),
        "events_per_second": round(report.events / report.seconds) if report.seconds else 0,
    }
    if request.policies is not None:
        facts["policies"] = f"{len(request.policies)} taken over"
    else:
        facts["policies"] = f"newest {request.newest or DEFAULT_NEWEST}"
    if comparison is not None:
        facts["equal"] = comparison.equal
    if as_json:
        print_json({**facts, **({"differences": comparison.differences} if comparison is not None else {})})
        return
    for difference in comparison.differences if comparison is not None else ():
        click.echo(str(difference))
    print_facts(facts.items())


@contextmanager
def _telling() -> Iterator[Tell]:
    """Bars on a terminal, a log line every ten seconds elsewhere."""
    console = Console(stderr=True)
    if console.is_terminal:
        with Bars(
            TextColumn("process {task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[size]}  {task.fields[rate]}"),
            TimeRemainingColumn(),
            console=console,
        ) as bars:
            yield _Bars(bars)
    else:
        yield _Lines()


class _Bars:
    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._tasks: dict[int, tuple[TaskID, float]] = {}

    def __call__(self, number: int, progress: Progress) -> None:
        if number not in self._tasks:
            task = self._bars.add_task(str(number + 1), total=None, size="", rate="")
            self._tasks[number] = (task, time.monotonic())
        task, started = self._tasks[number]
        rate = progress.events / max(time.monotonic() - started, 0.001)
        self._bars.update(
            task,
            completed=progress.events,
            total=progress.events + progress.left,
            size=decimal(progress.state_bytes),
            rate=f"{rate:,.0f}/s",
        )


class _Lines:
    def __init__(self) -> None:
        self._next = time.monotonic() + _LINE_SECONDS
        self._latest: dict[int, Progress] = {}

    def __call__(self, number: int, progress: Progress) -> None:
        self._latest[number] = progress
        if time.monotonic() >= self._next:
            self._next += _LINE_SECONDS
            for each, latest in sorted(self._latest.items()):
                logger.info(
                    "process %d: %d events, %d to go, %s of states",
                    *(each + 1, latest.events, latest.left, decimal(latest.state_bytes)),
                )


COMMANDS: Final = [replay]
