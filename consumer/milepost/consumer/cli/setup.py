"""`milepost setup`."""

from __future__ import annotations

from typing import Final

import click
from click.core import ParameterSource

from milepost.consumer.cli.options import json_option, log_and_view_options
from milepost.consumer.cli.output import print_facts, print_json
from milepost.consumer.setup import setup as set_up
from milepost.schemas.wire import DEFAULT_PARTITIONS


@click.command("setup")
@log_and_view_options
@click.option("--partitions", default=DEFAULT_PARTITIONS, show_default=True, type=click.IntRange(1, 100_000))
@click.option("--replication-factor", default=1, show_default=True, type=click.IntRange(1, 100))
@click.option(
    "--retain", type=click.IntRange(1), help="How many checkpoints of a session stay by default; 50 at first."
)
@json_option
def setup(
    kafka: str,
    topic: str,
    database: str,
    partitions: int,
    replication_factor: int,
    retain: int | None,
    as_json: bool,
) -> None:
    """Create the topic and the schema. Safe to repeat.

    Partitions are the unit of scale and cannot be added later: a session's next event would lie elsewhere than its last.
    """
    asked = click.get_current_context().get_parameter_source("partitions")
    report = set_up(kafka, topic, database, partitions=partitions, replication_factor=replication_factor, newest=retain)
    if report.log.partitions != partitions and asked is not ParameterSource.DEFAULT:
        click.echo(f"milepost: the topic has {report.log.partitions} partitions, which cannot be changed", err=True)
    if as_json:
        print_json(report)
        return
    print_facts(
        [
            ("topic", f"{report.log.topic} ({'created' if report.topic_created else 'was there'})"),
            ("partitions", report.log.partitions),
            ("cluster", report.log.cluster_id),
            ("migrations", ", ".join(report.migrations_applied) or "none to apply"),
            ("retention", f"newest {report.newest} of a session"),
        ]
    )


COMMANDS: Final = [setup]
