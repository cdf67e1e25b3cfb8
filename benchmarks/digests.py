"""What the chains of the history and the keyed digests cost: live without them, with them, and with a key."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.bench import Bench, Case, Figures, Stage
from benchmarks.log import Shape
from benchmarks.throughput import consume, log


@contextmanager
def cases(stage: Stage) -> Iterator[list[Case]]:
    """One log for all."""
    key = stage.folder / "key"
    key.write_bytes(secrets.token_bytes(32))
    key.chmod(0o600)
    shape = Shape(stage.events // 2)
    with log(stage, shape) as topic:
        run = partial(_variant, stage, topic, shape)
        bare = "live without chains"
        yield [
            Case(bare, partial(run, "chains")),
            Case("live with chains", partial(run, "nothing"), (bare,)),
            Case("live with chains and a key", partial(run, "nothing", "--integrity-key", str(key)), (bare,)),
            Case("live, its chains timed", partial(_timed, stage, topic, shape)),
            Case("live with a key, both timed", partial(_timed, stage, topic, shape, "--integrity-key", str(key))),
        ]


def _variant(stage: Stage, topic: str, shape: Shape, left_out: str, *options: str) -> Figures:
    program = [sys.executable, "-m", "benchmarks.variants", left_out]
    return consume(stage, topic, shape, options=options, program=program)


def _timed(stage: Stage, topic: str, shape: Shape, *options: str) -> Figures:
    """What they take of the whole, as if nothing else went on beside them."""
    file = stage.folder / "digests.json"
    program: list[str | Path] = [sys.executable, "-m", "benchmarks.timed_digests", file]
    figures = consume(stage, topic, shape, options=options, program=program)
    seconds = msgspec.json.decode(file.read_bytes(), type=float)
    each = seconds / shape.events * 1e6
    return figures | {"digests µs": each, "digests, % of the time": each * figures["events/s"] / 1e4}


BENCH: Final = Bench("digests", "what chains and keyed digests cost, 7.5 KB", cases)
