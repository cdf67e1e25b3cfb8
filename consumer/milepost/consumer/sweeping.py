"""The sweep after a change of policy, as a step of the loop: where it fails, events are taken in all the same."""

from __future__ import annotations

import logging
import time
from typing import Final

from milepost.consumer.backoff import Backoff
from milepost.consumer.isolation import is_of_partition
from milepost.consumer.materializer import Materializer
from milepost.consumer.observe import Observer

logger = logging.getLogger(__name__)

_PAUSE: Final = Backoff(5.0, 300.0)
_LOOK_SECONDS: Final = 2.0


class Sweeping:
    """Sweeps while there is something to sweep. Not for several threads."""

    def __init__(self, materializer: Materializer, observer: Observer, *, is_patient: bool) -> None:
        """Who is not patient wants to know at once that it fails."""
        self._is_patient = is_patient
        self._materializer = materializer
        self._observer = observer
        self._failures = 0
        self._next = 0.0
        self._next_look = 0.0

    @property
    def is_due(self) -> bool:
        """Whether sessions have to be measured by a changed policy, now."""
        return self._materializer.is_sweeping and time.monotonic() >= self._next

    def step(self, *, is_tried: bool) -> None:
        """Measure some sessions, when it is due. Raises like `Materializer.apply`.

        What may come of a session only puts the sweep off; a passing cause only once waiting was tried.
        """
        if not self._materializer.is_sweeping and time.monotonic() >= self._next_look:
            # a batch would show that the policies have changed, but maybe none comes
            self._next_look = time.monotonic() + _LOOK_SECONDS
            self._materializer.look_at_policies()
        if not self.is_due:
            return
        try:
            self._observer.pruned(self._materializer.sweep())
        except Exception as error:
            if not self._is_patient or not is_of_partition(error, is_tried=is_tried):
                raise
            self._failures += 1
            pause = _PAUSE.seconds(self._failures)
            self._next = time.monotonic() + pause
            logger.exception(
                "a changed policy could not be applied to the sessions that stand still; tried again in %.0f s",
                pause,
                extra={"event": "sweep_failed"},
            )
            # its transaction was rolled back, and nothing else was begun: the positions hold
        else:
            self._failures = 0
