"""`milepost consume`."""

from __future__ import annotations

import logging
from typing import Final

import click

from milepost.consumer.cli.options import integrity_keys_option, json_option, log_and_view_options
from milepost.consumer.cli.output import print_facts, print_json
from milepost.consumer.config import ConsumeConfig
from milepost.consumer.supervisor import consume as materialize


@click.command("consume")
@log_and_view_options
@click.option("--processes", default=1, show_default=True, type=click.IntRange(1, 1_000), help="Each takes its share.")
@click.option("--until-caught-up", is_flag=True, help="End at the log's end as it is now.")
@click.option("--http", metavar="HOST:PORT", help="Answer there for /healthz, /readyz and /metrics.")
@integrity_keys_option
@json_option
def consume(
    kafka: str,
    topic: str,
    database: str,
    processes: int,
    until_caught_up: bool,
    http: str | None,
    integrity_keys: tuple[str, ...],
    as_json: bool,
) -> None:
    """Materialize the log into the view. SIGINT and SIGTERM stop it at a batch's end."""
    logging.getLogger().setLevel(min(logging.getLogger().level, logging.INFO))
    report = materialize(
        ConsumeConfig(kafka=kafka, topic=topic, database=database, http=http, integrity_keys=integrity_keys),
        processes=processes,
        until_caught_up=until_caught_up,
    )
    facts = {
        "events": report.events,
        **report.applied.counts,
        "batches": report.batches,
        "fenced": report.fenced,
    }
    if as_json:
        print_json(facts)
    else:
        print_facts(facts.items())


COMMANDS: Final = [consume]
