"""What comes from outside and must not break a thread: exceptions of callbacks and of the log, endless timeouts."""

from __future__ import annotations

import contextlib
import logging
import math
import traceback
from typing import Final

LONGEST_SECONDS: Final = 10 * 365 * 86_400.0
"""What stands for an endless wait: the system takes no infinite one."""


def log_exception(logger: logging.Logger, message: str, *arguments: object) -> None:
    """Log the exception that is being handled. Never raises: when the log itself does, it goes to stderr."""
    try:
        logger.error(message, *arguments, exc_info=True)  # noqa: LOG014 - called in a handler
    except BaseException:  # noqa: BLE001 - a filter or a handler of the application
        with contextlib.suppress(BaseException):
            traceback.print_exc()


def finite(seconds: float) -> float:
    """A time to wait, that any lock takes. Raises `TypeError` for what is no number, None too, and `ValueError` for NaN."""
    if not isinstance(seconds, int | float):
        raise TypeError(f"timeout: expected seconds, found {seconds!r}")
    if math.isnan(seconds):
        raise ValueError("timeout: expected seconds, found NaN")
    return min(float(seconds), LONGEST_SECONDS)
