"""What the demo publishes: the samples of two frameworks, and checkpoints of growing conversations."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

from milepost.schemas import CheckpointCreated

SAMPLES = Path(__file__).parent.parent / "data" / "samples"
TENANT = "demo"
SESSIONS = 200
CHECKPOINTS = 10_000
# half of the sessions get more checkpoints than retention keeps, half get fewer
LONG, SHORT = 75, 25

_WORDS = (
    "plan",
    "book",
    "flight",
    "hotel",
    "Zürich",
    "weather",
    "☃",
    "tool",
    "result",
    "東京",
    'a "quoted" word',
    "19.990",
)


def samples() -> Iterator[CheckpointCreated]:
    """Each JSON file under tests/data/samples, one session a framework."""
    for path in sorted(SAMPLES.rglob("*.json")):
        yield CheckpointCreated(
            tenant_id=TENANT,
            session_id=f"samples/{path.parent.name}",
            checkpoint_id=path.stem,
            state=path.read_bytes(),
            labels={"framework": path.parent.name},
        )


def generated(seed: int) -> Iterator[CheckpointCreated]:
    """Ten thousand checkpoints over two hundred sessions, interleaved as many runtimes would."""
    chosen = random.Random(seed)
    turns = [number for number in range(SESSIONS) for _ in range(LONG if number % 2 else SHORT)]
    chosen.shuffle(turns)
    messages: dict[int, list[dict[str, str]]] = {number: [] for number in range(SESSIONS)}
    parents: dict[int, str] = {}
    for number in turns:
        conversation = messages[number]
        conversation.append(
            {"role": ("user", "assistant")[len(conversation) % 2], "content": " ".join(chosen.choices(_WORDS, k=20))}
        )
        event = CheckpointCreated(
            tenant_id=TENANT,
            session_id=f"session-{number:03d}",
            state=_state(number, conversation[-18:]),
            parent_id=parents.get(number),
            run_id=UUID(int=number + 1),
            step=len(conversation),
            labels={"workflow": "travel"},
        )
        parents[number] = event.checkpoint_id
        yield event


def _state(number: int, conversation: list[dict[str, str]]) -> bytes:
    """`$type` first, as Microsoft Agent Framework needs it, and white space and numbers that a parser would change."""
    body = json.dumps(conversation, ensure_ascii=bool(number % 3), indent=None if number % 2 else 1)
    return f'{{"$type": "session", "n":1.0,  "exp": 1E5, "zero": -0, "messages": {body}}}'.encode()
