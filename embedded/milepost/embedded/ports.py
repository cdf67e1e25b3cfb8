"""Free TCP ports of the loopback address."""

from __future__ import annotations

import operator
import random
import socket
from typing import TYPE_CHECKING

from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from milepost.embedded.errors import EmbeddedError
from milepost.embedded.settings import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Sequence

# below where systems take the local ends of outgoing connections from: none of those can take a stopped server's port
_LOWEST, _HIGHEST = 20_000, 32_000
_TRIES = 200
_PAUSE = 0.05


def is_free(port: int) -> bool:
    """Whether a server could listen on `port` of 127.0.0.1 now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # as servers do, so that the last connections of a stopped server don't count
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def become_free(ports: Sequence[int], limit: float) -> bool:
    """Whether all are free within `limit` seconds: a killed server is a zombie before the last of its threads lets go of them."""
    asking = Retrying(
        stop=stop_after_delay(limit),
        wait=wait_fixed(_PAUSE),
        retry=retry_if_result(operator.not_),
        retry_error_callback=lambda _: False,
    )
    return bool(asking(lambda: all(map(is_free, ports))))


def free_ports(count: int) -> list[int]:
    """`count` different free ports, chosen at random so that two stacks starting at once rarely meet.

    Raises EmbeddedError when this machine has hardly any left.
    """
    chosen: list[int] = []
    for _ in range(_TRIES):
        port = random.randint(_LOWEST, _HIGHEST)  # noqa: S311 - not a secret
        if port not in chosen and is_free(port):
            chosen.append(port)
        if len(chosen) == count:
            return chosen
    message = (
        f"no {count} free TCP ports on {LOOPBACK} among {_TRIES} tried of {_LOWEST} to {_HIGHEST}: stop a few servers"
    )
    raise EmbeddedError(message)
