"""`milepost status`."""

from __future__ import annotations

from typing import Final

import click

from milepost.consumer.cli.options import json_option, log_and_view_options
from milepost.consumer.cli.output import print_facts, print_json, print_table
from milepost.consumer.status import Status, read_status


@click.command("status")
@log_and_view_options
@json_option
def status(kafka: str, topic: str, database: str, as_json: bool) -> None:
    """Show how far the view is, partition by partition, and what it holds."""
    found = read_status(kafka, topic, database)
    if as_json:
        print_json(found)
        return
    print_facts(
        [
            ("topic", f"{found.topic} (id {found.topic_id})"),
            ("cluster", found.cluster_id),
            ("sessions", found.sessions),
            ("live checkpoints", f"{found.checkpoints} ({found.live_bytes} bytes)"),
            ("events", found.events),
            ("applied", found.applied),
            ("duplicates", found.duplicates),
            ("stale", found.stale),
            ("conflicts", found.conflicts),
            ("quarantined", f"{found.quarantined} ({found.quarantine_open} open)"),
            ("missing", f"{found.missing}{_why_missing(found)}"),
            ("lag", found.lag),
        ]
    )
    print_table(
        ["partition", "next_offset", "log_end", "lag", "log_time"],
        [(row.partition, row.next_offset, row.log_end, row.lag, row.log_time) for row in found.partitions],
        empty="no partition",
    )


def _why_missing(found: Status) -> str:
    if not found.missing:
        return ""
    return " (or on their way: the view is behind)" if found.lag else " (run: milepost audit gaps)"


COMMANDS: Final = [status]
