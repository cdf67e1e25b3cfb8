"""What the figures were taken on: they mean nothing without it."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import confluent_kafka
import msgspec


class Machine(msgspec.Struct, frozen=True):
    """The machine, the versions, the time, and how busy it was."""

    date: str
    system: str
    processor: str
    processors: int
    python: str
    milepost: str
    confluent_kafka: str
    librdkafka: str
    load_before: tuple[float, float, float]


def describe() -> Machine:
    """This machine, now."""
    return Machine(
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        system=f"{platform.system()} {platform.release()}",
        processor=_processor(),
        processors=len(os.sched_getaffinity(0)),
        python=platform.python_version(),
        milepost=version("milepost"),
        confluent_kafka=version("confluent-kafka"),
        librdkafka=confluent_kafka.libversion()[0],
        load_before=os.getloadavg(),
    )


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
