"""A clock for intervals: it shows the time of day, and does not go back.

The system's clock is set by people and by time servers, forwards and back. A clock that is asked "has a second passed
since then?" must not go back, or the answer is no for as long as it was set back. A ``SteadyClock`` shows the system's
time while that goes forwards. When it was set back, the clock goes on from where it was, a little slower, until the
system's time has caught up: two hours are made up in twenty. It must not be much slower, because what is renewed when
four fifths of its life are over must not come too late.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock

PACE = 0.9
"""Seconds that it goes on in a second, at least."""


class SteadyClock:
    """Call it for the seconds since 1970; any thread may. ``wall`` may be set back, ``monotonic`` never goes back."""

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._monotonic = wall, monotonic
        self._lock = Lock()
        self._asked, self._shown = monotonic(), wall()

    def __call__(self) -> float:
        with self._lock:
            asked = self._monotonic()
            self._shown = max(self._wall(), self._shown + PACE * (asked - self._asked))
            self._asked = asked
            return self._shown

    def start_from(self, seconds: float) -> None:
        """Show nothing earlier than this from now on: it was shown before, perhaps by another process."""
        with self._lock:
            self._shown = max(self._shown, seconds)
