"""What is kept of a round that failed: both views, the log, the processes' lines, and how to have the round again."""

from __future__ import annotations

import base64
import shutil
import signal
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from milepost.consumer.records import LogRecord
from tests.chaos.process import ERRORS, Child, wait_until
from tests.chaos.schedule import Round
from tests.chaos.servers import SERVERS
from tests.chaos.world import World
from tests.fixtures.dump import Dump, dump

_SAYING_SECONDS: Final = 1.0


def keep(folder: Path, seed: int, rounds: Sequence[Round], world: World, found: Sequence[str]) -> Path:
    """Write everything to a folder of the last round's number, and give it; why something is not there is in `missing.txt`."""
    target = folder / f"seed-{seed}-round-{rounds[-1].number}"
    target.mkdir(parents=True, exist_ok=True)
    encode = msgspec.json.Encoder().encode
    (target / "schedule.json").write_bytes(msgspec.json.format(encode({"seed": seed, "rounds": rounds})))
    (target / "differences.txt").write_text("".join(f"{each}\n" for each in found))
    try:
        _ask_for_stacks(world)
        shutil.copytree(world.folder, target / "processes", dirs_exist_ok=True)
        shutil.copytree(world.servers.stack.directory / "logs", target / "servers", dirs_exist_ok=True)
        for server in SERVERS:
            world.servers.start(server)
        for name, database in (("view", world.database), ("replay", world.replayed)):
            if database:
                (target / f"{name}.jsonl").write_bytes(_lines(dump(database)))
        with (target / "log.jsonl").open("wb") as lines:
            for record in world.log.records():
                lines.write(encode(_readable(record)) + b"\n")
    except ERRORS as error:
        (target / "missing.txt").write_text("".join(traceback.format_exception(error)))
    return target


def _ask_for_stacks(world: World) -> None:
    """Let each consumer say where its threads are; one that is stopped can't."""
    asked = [consumer.child for consumer in world.consumers if consumer.child.is_alive]
    for child in asked:
        child.mark()
        child.signal(signal.SIGUSR1)
    with suppress(TimeoutError):
        wait_until(lambda: all(map(Child.said, asked)), "where threads are", _SAYING_SECONDS)


def _lines(found: Dump) -> bytes:
    rows = ([table, *row] for table, rows in found.items() for row in rows)
    return b"".join(msgspec.json.encode(row) + b"\n" for row in rows)


def _readable(record: LogRecord) -> dict[str, object]:
    return {
        "partition": record.partition,
        "offset": record.offset,
        "log_time": record.log_time,
        "key": _text(record.key),
        "headers": [(name, _text(value)) for name, value in record.headers],
        "value": _text(record.value),
    }


def _text(value: bytes | None) -> object:
    try:
        return value.decode() if value is not None else None
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value or b"").decode()}
