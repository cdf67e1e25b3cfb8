"""States as runtimes write them: a workflow's head as in Microsoft Agent Framework, and the last messages of a conversation.

Each is its own text; consecutive states of a session share most of their messages, as those of a real session do.
"""

from __future__ import annotations

import random
from typing import Final

_HEAD: Final = (
    b'{"$type":"checkpoint","stepNumber":%d,"workflow":{"startExecutorId":"start","executors":{"writer":{"executorType":'
    b'{"assemblyName":"Microsoft.Agents.AI.Workflows","typeName":"AIAgentHostExecutor"},"executorId":"writer"}}},'
    b'"session":"%s","messages":['
)
_MESSAGE: Final = (
    b'{"authorName":"writer","role":"assistant","contents":[{"$type":"text","text":"%s"}],"createdAt":%d.0}'
)
_WORDS: Final = str.split(
    "the of and to in for is on that by this with agent workflow message order invoice customer city response request "
    "please summarize checkpoint plan tool result answer question because therefore between system"
)
# as rare as in the samples: most runtimes escape them
_OTHER_WORDS: Final = ("Zürich", "naïve", "東京")
_POOL: Final = 4_096
_MESSAGE_BYTES: Final = 400


class States:
    """Makes states of about `size` bytes. The same arguments give the same bytes."""

    def __init__(self, size: int) -> None:
        words = random.Random(size)  # noqa: S311 - the same states every time
        length = min(_MESSAGE_BYTES, max(40, size // 4))
        self._messages = [_message(words, length, number) for number in range(_POOL)]
        mean = sum(map(len, self._messages)) / _POOL + 1
        self._count = max(1, round((size - len(_HEAD)) / mean))

    def state(self, session: int, step: int) -> bytes:
        """The state of a session after a step: one message more, the oldest one gone."""
        begin = (session * 97 + step) % (_POOL - self._count)
        messages = b",".join(self._messages[begin : begin + self._count])
        return _HEAD % (step, b"%d" % session) + messages + b"]}"


def _message(words: random.Random, length: int, number: int) -> bytes:
    text = ""
    while len(text) + len(_MESSAGE) < length:
        chosen = words.choice(_OTHER_WORDS if words.random() < 0.001 else _WORDS)
        text += chosen + (r"\n" if words.random() < 0.02 else " ")
    return _MESSAGE % (text.encode(), number)
