"""`milepost publish` and `milepost delete-session`."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any, BinaryIO, Final
from uuid import UUID

import click

from milepost.consumer.cli.options import a_label, a_uuid, json_option, log_options, some_seconds
from milepost.consumer.cli.output import CouldNotError, print_facts, print_json
from milepost.consumer.kafka import admin
from milepost.consumer.log import identify
from milepost.producer import CheckpointPublisher
from milepost.schemas import CheckpointCreated, DeliveryFailed, KafkaUnavailable, SessionDeleted
from milepost.schemas.events import Event
from milepost.schemas.json_text import MAX_STATE_BYTES

_SOURCE: Final = "/runtimes/milepost-cli"

timeout_option = click.option(
    "--timeout",
    default=30.0,
    show_default=True,
    type=some_seconds,
    metavar="SECONDS",
    help="How long to wait for Kafka.",
)


@click.command("publish")
@click.argument("tenant")
@click.argument("session")
@log_options
@click.option(
    "--state", type=click.File("rb"), default="-", help="The file with the state; standard input if left out."
)
@click.option("--checkpoint-id", help="A new UUIDv7 if left out.")
@click.option("--parent-id", help="The checkpoint that this one follows.")
@click.option("--run-id", type=a_uuid, help="The execution inside the session.")
@click.option("--step", type=click.IntRange(0), help="The super-step in the run.")
@click.option("--next-node", help="The node to run next.")
@click.option("--framework-version", help="The version of the framework that wrote the state.")
@click.option("--schema-version", type=click.IntRange(0), help="The generation of the state's schema.")
@click.option("--pinned", is_flag=True, help="Retention leaves it alone.")
@click.option("--label", "labels", multiple=True, type=a_label, metavar="K=V", help="May be given several times.")
@timeout_option
@json_option
def publish(
    tenant: str, session: str, kafka: str, topic: str, state: BinaryIO, timeout: float, as_json: bool, **fields: Any
) -> None:
    """Publish a checkpoint and print its receipt. The state's bytes are sent as they are."""
    # one byte more than is allowed tells a state that is too large from one that fits
    try:
        content = state.read(MAX_STATE_BYTES + 1)
    except OSError as error:
        raise CouldNotError(f"the state could not be read from {state.name}: {error.strerror}") from error
    known = {name: value for name, value in fields.items() if value is not None and name != "labels"}
    event = CheckpointCreated(
        tenant_id=tenant, session_id=session, state=content, labels=dict(fields["labels"]), **known
    )
    _send(event, kafka, topic, timeout, as_json)


@click.command("delete-session")
@click.argument("tenant")
@click.argument("session")
@log_options
@click.option("--reason", help="Why, for the history.")
@timeout_option
@json_option
def delete_session(
    tenant: str, session: str, kafka: str, topic: str, reason: str | None, timeout: float, as_json: bool
) -> None:
    """Publish a session's deletion and print its receipt. Its states go, its history stays."""
    _send(SessionDeleted(tenant_id=tenant, session_id=session, reason=reason), kafka, topic, timeout, as_json)


def _send(event: Event, kafka: str, topic: str, timeout: float, as_json: bool) -> None:
    with CheckpointPublisher(kafka, topic=topic, source=_SOURCE) as publisher:
        receipt = publisher.publish(event)
        try:
            position = receipt.result(timeout)
        except TimeoutError:
            publisher.close(timeout=0)
            # the commonest reason, and one with a remedy
            with suppress(KafkaUnavailable):
                identify(admin(kafka), kafka, topic)
            raise DeliveryFailed(
                receipt.event_id, "timeout", f"Kafka at {kafka} did not take it into {topic} within {timeout:g} seconds"
            ) from None
    facts: dict[str, UUID | str | None] = {"event_id": receipt.event_id}
    if receipt.checkpoint_id is not None:
        facts["checkpoint_id"] = receipt.checkpoint_id
    facts["position"] = str(position)
    if as_json:
        print_json(facts)
    else:
        print_facts(facts.items())
    sys.stdout.flush()


COMMANDS: Final = [publish, delete_session]
