"""A log without Kafka for a verification, and views filled from it with everything that can happen to one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from importlib import import_module

import msgspec
import pytest

from milepost.consumer.audit import VerifyReport, VerifyRequest, log, verify
from milepost.consumer.audit.parts import verify_part
from milepost.consumer.database import connect
from milepost.consumer.fetcher import Fetched
from milepost.consumer.headers import is_readable
from milepost.consumer.log import LogIdentity
from milepost.consumer.materializer import become_writer
from milepost.consumer.records import LogRecord, RawRecord
from milepost.consumer.retry import Retry
from milepost.schemas import DEFAULT_TOPIC, Position
from tests.fixtures.view import PARTITIONS

IDENTITY = LogIdentity("test-cluster", DEFAULT_TOPIC, "test-topic-id", PARTITIONS)


class FakeScan:
    """Gives the records of a fake log as the real scan gives those of Kafka."""

    records: Sequence[LogRecord] = ()

    def __init__(self, servers: str, topic: str, start: Mapping[int, int], end: Mapping[int, int]) -> None:
        self._left = [raw(r) for r in self.records if start.get(r.partition, 2**63) <= r.offset < end[r.partition]]

    @property
    def is_done(self) -> bool:
        return not self._left

    def fetch(self, limit: int, seconds: float) -> Fetched:
        found, self._left = self._left[:7], self._left[7:]
        return Fetched(found, {}, len(found))

    def close(self) -> None:
        """Nothing is open."""


def raw(record: LogRecord) -> RawRecord:
    """A record as the client gives it."""
    readable = is_readable(record.headers)
    return RawRecord(
        record.partition,
        record.offset,
        record.log_time,
        record.key,
        record.value,
        record.headers,
        readable,
        record.size,
    )


def ends_of(records: Iterable[LogRecord]) -> dict[int, int]:
    """Where each partition ends."""
    ends = dict.fromkeys(range(PARTITIONS), 0)
    for record in records:
        ends[record.partition] = max(ends[record.partition], record.offset + 1)
    return ends


def against(
    patch: pytest.MonkeyPatch,
    database: str,
    records: Sequence[LogRecord],
    since: Sequence[Position] = (),
    *,
    begin: int = 0,
    request: VerifyRequest | None = None,
) -> VerifyReport:
    """Verify a view against these records, or as the request says, with them as the log."""
    module = import_module("milepost.consumer.audit.verify")  # its name in the package is the function's
    patch.setattr(FakeScan, "records", records)
    patch.setattr(log, "Scan", FakeScan)
    patch.setattr(module.clients, "admin", lambda servers: None)
    patch.setattr(module, "identify", lambda client, servers, topic: IDENTITY)
    patch.setattr(module, "beginnings", lambda client, servers, log: dict.fromkeys(range(PARTITIONS), begin))
    patch.setattr(module, "ends", lambda client, servers, log: ends_of(records))
    if request is None:
        request = VerifyRequest(database=database, against_log=True, since=since)
    return verify(msgspec.structs.replace(request, kafka="fake:1"))


def in_parts(patch: pytest.MonkeyPatch) -> None:
    """Let verifications be shared out however small they are, but be done here, where the log may be a fake one."""
    module = import_module("milepost.consumer.audit.verify")
    patch.setattr(module, "_RECORDS_FOR_ANOTHER", 1)
    patch.setattr(
        module,
        "run_parts",
        lambda connection, parts, stop, tell: [verify_part(connection, each, tell) for each in parts],
    )


def sorted_first(report: VerifyReport) -> list[str]:
    """The deviations that are named, in an order that does not depend on who found them."""
    return sorted(map(str, report.first))


def retry(database: str, records: Iterable[LogRecord]) -> None:
    """Retry records of the quarantine, as an operator does."""
    with closing(connect(database)) as connection:
        become_writer(connection)
        list(Retry(connection).run([Position("", record.partition, record.offset) for record in records]))
