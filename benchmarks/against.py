"""milepost beside what people use today for the same topic and the same server: a plain consumer, and quixstreams' sink."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import psycopg
from psycopg.conninfo import conninfo_to_dict

from benchmarks.bench import Bench, Case, Figures, Stage
from benchmarks.log import Shape
from benchmarks.throughput import consume, log
from benchmarks.views import fresh_database

_FOLDER: Final = Path(__file__).absolute().with_name("rivals")
_NEARLY_ALL: Final = 0.9
_LOOK_SECONDS: Final = 0.2
_LIMIT_SECONDS: Final = 900.0
_COUNT: Final = "select coalesce(sum(n_tup_ins), 0)::int8 from pg_stat_user_tables"


@contextmanager
def cases(stage: Stage) -> Iterator[list[Case]]:
    """A quarter of the log's events: the plain consumer is slow."""
    python = _environment()
    shape = Shape(max(stage.events // 4, 1_000))
    with log(stage, shape) as topic:
        quix = partial(_rival, stage, topic, shape, python, "quix.py")
        yield [
            Case("plain consumer", partial(_rival, stage, topic, shape, python, "naive.py")),
            Case("quixstreams, usual", partial(quix, "usual")),
            Case("quixstreams, best", partial(quix, "best")),
            Case(
                "live, 1 process",
                partial(consume, stage, topic, shape, 1),
                ("plain consumer", "quixstreams, usual", "quixstreams, best"),
            ),
        ]


def _environment() -> Path:
    """A virtual environment with the rivals' packages, from their lock. Gives its Python."""
    lock, folder = _FOLDER / "rivals.lock", Path("build/rivals")
    python, made = folder / "bin" / "python", folder / "made-from.lock"
    if not made.exists() or made.read_bytes() != lock.read_bytes():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--require-hashes", "-r", lock], check=True)
        made.write_bytes(lock.read_bytes())
    return python.absolute()


def _rival(stage: Stage, topic: str, shape: Shape, python: Path, program: str, *options: str) -> Figures:
    """The rate at which rows come into its tables, as Postgres counts them, until nearly all are there."""
    with fresh_database(stage.database) as database:
        arguments = [stage.kafka, topic, _uri(database), *options]
        # quixstreams leaves folders where it works
        process = subprocess.Popen([python, _FOLDER / program, *arguments], stderr=subprocess.PIPE, cwd=stage.folder)
        try:
            samples = _watch(database, int(shape.events * _NEARLY_ALL), process)
        finally:
            process.kill()
            process.wait()
    (begin, first), (end, last) = samples[0], samples[-1]
    return {"events/s": (last - first) / (end - begin)}


def _uri(database: str) -> str:
    """The conninfo as a URI."""
    found = conninfo_to_dict(database)
    return f"postgresql://{found['user']}:{found['password']}@{found['host']}:{found['port']}/{found['dbname']}"


def _watch(database: str, enough: int, process: subprocess.Popen[bytes]) -> list[tuple[float, int]]:
    samples: list[tuple[float, int]] = []
    limit = time.monotonic() + _LIMIT_SECONDS
    with psycopg.connect(database, autocommit=True) as connection:
        while not samples or samples[-1][1] < enough:
            if process.poll() is not None or time.monotonic() > limit:
                said = (
                    process.stderr.read().decode() if process.stderr is not None and process.poll() is not None else ""
                )
                raise RuntimeError(f"expected {enough} rows, found {samples[-1:]}: {said[-2_000:]}")
            row = connection.execute(_COUNT).fetchone()
            if row is not None and row[0] and (not samples or row[0] > samples[-1][1]):
                samples.append((time.perf_counter(), row[0]))
            time.sleep(_LOOK_SECONDS)
    return samples


BENCH: Final = Bench("rivals", "7.5 KB states beside other consumers on the same topic and server", cases)
