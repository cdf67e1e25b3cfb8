"""`make demo`: checkpoints go through a real Kafka into a real Postgres and back, and every byte is compared."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from milepost.consumer import CheckpointStore
from milepost.producer import CheckpointPublisher, Receipt
from milepost.schemas import CheckpointCreated, Position, SessionDeleted
from tests.demo import events
from tests.demo.check import KEPT, DifferenceFound, Sent, compare
from tests.demo.servers import consuming, milepost, running_stack

FOLDER = Path(".demo")
WAIT_SECONDS = 60.0
SEED = 20_261_130

Item = TypeVar("Item")
console = Console(highlight=False)


def main() -> int:
    """Run the demo; 1 when a difference is found."""
    started = time.monotonic()
    try:
        with ExitStack() as stack:
            step("start Kafka and Postgres in .demo")
            environment = stack.enter_context(running_stack(FOLDER))
            step("milepost setup")
            console.print(milepost(environment, "setup"), end="")
            step("milepost consume --processes 2")
            stack.enter_context(consuming(environment, FOLDER / "consume.log"))
            show(environment)
    except DifferenceFound as difference:
        console.print(f"DIFFERENT: {difference}")
        return 1
    console.print(f"\nAll equal. Everything is stopped again, after {time.monotonic() - started:.0f} s.")
    return 0


def show(environment: Mapping[str, str]) -> None:
    """The main job, then what becomes of a deleted session."""
    sent = Sent()
    with (
        CheckpointPublisher(environment["MILEPOST_KAFKA"], source="/runtimes/demo") as publisher,
        CheckpointStore(environment["MILEPOST_DATABASE"]) as store,
    ):
        step("publish the samples and 10,000 generated checkpoints")
        rate, ends = publish_all(publisher, sent)
        step("wait until the view has them")
        behind = wait_for_all(store, ends)
        step("read back and compare byte by byte")
        compared, read_rate = compare_all(store, sent)
        deleted = show_deletion(publisher, store, sent)
    status = json.loads(milepost(environment, "status", "--json"))
    step("summary")
    for name, value in {
        "published": f"{sent.total} checkpoints in {len(sent.sessions)} sessions, {rate:,.0f} a second",
        "in the view": f"{behind:.2f} s after the last was published",
        "compared": f"{compared} states, all equal, {read_rate:,.0f} a second",
        "retention": f"at most {KEPT} of a session; {sent.total - compared} states pruned, their history kept",
        "deleted": deleted,
        "outcomes": ", ".join(f"{status[name]} {name}" for name in ("applied", "duplicates", "stale", "conflicts")),
        "quarantined": status["quarantined"],
        "lag": status["lag"],
    }.items():
        console.print(f"  {name:<12} {value}")
    if (status["applied"], status["stale"], status["quarantined"], status["lag"]) != (sent.total + 1, 1, 0, 0):
        raise DifferenceFound(f"expected {sent.total + 1} applied, 1 stale, none quarantined, lag 0; found {status}")


def publish_all(publisher: CheckpointPublisher, sent: Sent) -> tuple[float, list[Position]]:
    """Publish everything; gives the rate and the last position of each partition."""
    receipts: list[Receipt] = []
    started = time.monotonic()
    everything = [*events.samples(), *events.generated(SEED)]
    for event in progress("published", everything):
        sent.add(event)
        receipts.append(publisher.publish(event))
    if left := publisher.flush(WAIT_SECONDS):
        raise DifferenceFound(f"expected every event delivered, found {left} under way")
    rate = len(receipts) / (time.monotonic() - started)
    last: dict[int, Position] = {}
    for position in (receipt.result(0) for receipt in receipts):
        last[position.partition] = max(position, last.get(position.partition, position))
    return rate, list(last.values())


def wait_for_all(store: CheckpointStore, ends: Iterable[Position]) -> float:
    """Wait for the last record of each partition; gives the seconds it took."""
    started = time.monotonic()
    for position in ends:
        store.wait_for(position, WAIT_SECONDS)
    return time.monotonic() - started


def compare_all(store: CheckpointStore, sent: Sent) -> tuple[int, float]:
    """Compare every surviving state; gives how many, and the rate."""
    started = time.monotonic()
    compared = sum(compare(store, sent, *key) for key in progress("sessions compared", list(sent.sessions)))
    longest = f"session-{1:03d}"
    console.print(
        f"  {longest}: {len(sent.sessions[events.TENANT, longest])} published, "
        f"{len(store.list(events.TENANT, longest))} kept, {len(store.history(events.TENANT, longest))} in its history"
    )
    return compared, compared / (time.monotonic() - started)


def show_deletion(publisher: CheckpointPublisher, store: CheckpointStore, sent: Sent) -> str:
    """Delete a session, then send it an event that was made before: the states go, the history stays, nothing returns."""
    step("delete a session, then send it a late event")
    key = (events.TENANT, f"session-{1:03d}")
    before = len(store.list(*key))
    deletion = SessionDeleted(tenant_id=key[0], session_id=key[1], reason="shown in the demo")
    late = CheckpointCreated(
        tenant_id=key[0],
        session_id=key[1],
        state=b'{"late": true}',
        created_at=deletion.deleted_at - timedelta(seconds=5),
    )
    publisher.publish(deletion)
    store.wait_for(publisher.publish(late).result(WAIT_SECONDS), WAIT_SECONDS)
    history = store.history(*key)
    outcomes = [(entry.kind.value, entry.outcome.value) for entry in history[-2:]]
    for kind, outcome in outcomes:
        console.print(f"  {kind}: {outcome}")
    kept = len(store.list(*key))
    expected = [("session-deleted", "applied"), ("checkpoint-created", "stale")]
    if kept or outcomes != expected or len(history) != len(sent.sessions[key]) + 2:
        raise DifferenceFound(f"{key}: expected no state and {expected}, found {kept} and {outcomes}")
    return f"{key[1]}: {before} states removed, {len(history)} events in its history, a late one recorded as stale"


def progress(what: str, items: list[Item]) -> Iterator[Item]:
    """Go through the items while a bar shows how far; without a terminal, a line at each quarter."""
    if console.is_terminal:
        with Progress(
            TextColumn("  {task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console
        ) as bar:
            yield from bar.track(items, description=what)
        return
    for number, item in enumerate(items, 1):
        yield item
        if number * 4 // len(items) > (number - 1) * 4 // len(items):
            console.print(f"  {what}: {number} of {len(items)}")


def step(what: str) -> None:
    """Say what comes next."""
    console.print(f"\n[bold]{what}[/bold]")


if __name__ == "__main__":
    sys.exit(main())
