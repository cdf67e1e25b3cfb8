"""What the metrics are called and what they mean: the one place. The table in docs/operating.md is made from it."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from milepost.consumer.rules import Outcome
from milepost.schemas import Reason

KAFKA: Final = "kafka"
POSTGRES: Final = "postgres"
QUARANTINED: Final = "quarantined"
_SERVERS: Final = (KAFKA, POSTGRES)


class Metric(msgspec.Struct, frozen=True):
    """One metric, as Prometheus knows it."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    unit: str
    help: str
    label: str | None = None
    values: tuple[str, ...] = ()
    """The label's values that are known before anything happens: they start at 0, so that a first increase is seen."""
    buckets: tuple[float, ...] = ()
    """Upper bounds of a histogram, without the infinite one."""


LAG: Final = Metric(
    "milepost_lag_records",
    "gauge",
    "records",
    "Records of the log that the view has not taken in: the log's end minus the position.",
    "partition",
)
POSITION: Final = Metric(
    "milepost_position_offset",
    "gauge",
    "offset",
    "The next offset to be taken in, of each partition that this consumer has.",
    "partition",
)
LOG_END: Final = Metric(
    "milepost_log_end_offset",
    "gauge",
    "offset",
    "The offset that the partition's next record will get, asked for every few seconds.",
    "partition",
)
ASSIGNED: Final = Metric(
    "milepost_assigned_partitions",
    "gauge",
    "partitions",
    "Partitions that this consumer has, all its processes together.",
)
STOPPED: Final = Metric(
    "milepost_stopped_partitions",
    "gauge",
    "1 or 0",
    "1 while the partition is stopped, because its next records cannot be applied.",
    "partition",
)
WORKERS: Final = Metric("milepost_workers", "gauge", "processes", "Worker processes that run now.")
LOOP_AGE: Final = Metric(
    "milepost_loop_age_seconds", "gauge", "seconds", "Since when the slowest worker has not passed its loop."
)
SERVER_UP: Final = Metric(
    "milepost_server_up", "gauge", "1 or 0", "Whether the server has answered in the last seconds.", "server", _SERVERS
)
READY: Final = Metric("milepost_ready", "gauge", "1 or 0", "What /readyz says.")

EVENTS: Final = Metric(
    "milepost_events_total",
    "counter",
    "records",
    "Records taken from the log, by what became of them.",
    "outcome",
    (*(outcome.value for outcome in Outcome), QUARANTINED),
)
QUARANTINE: Final = Metric(
    "milepost_quarantined_total",
    "counter",
    "records",
    "Records that went to the quarantine, by reason.",
    "reason",
    tuple(reason.value for reason in Reason),
)
STATE_BYTES: Final = Metric("milepost_state_bytes_total", "counter", "bytes", "Bytes of the states of events taken in.")
WRITTEN: Final = Metric("milepost_states_written_total", "counter", "states", "States written to the view.")
SKIPPED: Final = Metric(
    "milepost_states_skipped_total",
    "counter",
    "states",
    "States never written, because the batch that brought them also pruned or deleted them.",
)
PRUNED: Final = Metric(
    "milepost_states_pruned_total", "counter", "states", "States removed by retention, those never written counted too."
)
FENCED: Final = Metric(
    "milepost_fenced_total", "counter", "batches", "Batches given up because another consumer had moved a position."
)
REBALANCES: Final = Metric(
    "milepost_rebalances_total", "counter", "rebalances", "Assignments of partitions by the group."
)
UNAVAILABLE: Final = Metric(
    "milepost_unavailable_total", "counter", "attempts", "Attempts that failed for now, by server.", "server", _SERVERS
)
RECONNECTS: Final = Metric(
    "milepost_reconnects_total",
    "counter",
    "returns",
    "Times that work went on after a server was away.",
    "server",
    _SERVERS,
)
STOPS: Final = Metric("milepost_partition_stops_total", "counter", "stops", "Times that a partition was stopped.")
RESTARTS: Final = Metric(
    "milepost_worker_restarts_total",
    "counter",
    "restarts",
    "Workers started in the place of one that was killed or crashed.",
)

BATCH_EVENTS: Final = Metric(
    "milepost_batch_events",
    "histogram",
    "records",
    "Records of a batch, which is one transaction.",
    buckets=(1, 3, 10, 30, 100, 300, 1_000),
)
BATCH_BYTES: Final = Metric(
    "milepost_batch_bytes",
    "histogram",
    "bytes",
    "Bytes of the states of a batch.",
    buckets=(1_024, 16_384, 131_072, 1_048_576, 4_194_304, 8_388_608, 16_777_216),
)
BATCH_SECONDS: Final = Metric(
    "milepost_batch_seconds",
    "histogram",
    "seconds",
    "What it took to apply a batch, from its first statement to its commit.",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)

CATALOGUE: Final = (
    LAG,
    POSITION,
    LOG_END,
    ASSIGNED,
    STOPPED,
    WORKERS,
    LOOP_AGE,
    SERVER_UP,
    READY,
    EVENTS,
    QUARANTINE,
    STATE_BYTES,
    WRITTEN,
    SKIPPED,
    PRUNED,
    FENCED,
    REBALANCES,
    UNAVAILABLE,
    RECONNECTS,
    STOPS,
    RESTARTS,
    BATCH_EVENTS,
    BATCH_BYTES,
    BATCH_SECONDS,
)


def table() -> str:
    """The catalogue as a table in Markdown."""
    lines = ["| metric | kind | unit | label | meaning |", "|---|---|---|---|---|"]
    lines += [
        f"| `{each.name}` | {each.kind} | {each.unit} | {f'`{each.label}`' if each.label else '-'} | {each.help} |"
        for each in CATALOGUE
    ]
    return "\n".join(lines)
