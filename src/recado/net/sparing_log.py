"""A log for lines that strangers cause: whoever can send a datagram must not be able to fill the disk."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any


class SparingLog:
    """At most ``most`` lines in ``seconds``; then how many more there were, with the next line after that."""

    def __init__(
        self,
        log: logging.Logger,
        most: int = 10,
        seconds: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log, self._most, self._seconds, self._clock = log, most, seconds, clock
        self._since, self._count, self._last = clock(), 0, ""

    def info(self, text: str, *args: Any, extra: dict[str, Any] | None = None) -> None:
        self._write(logging.INFO, text, args, extra)

    def warning(self, text: str, *args: Any, extra: dict[str, Any] | None = None) -> None:
        self._write(logging.WARNING, text, args, extra)

    def _write(self, level: int, text: str, args: tuple[Any, ...], extra: dict[str, Any] | None) -> None:
        now = self._clock()
        if now - self._since >= self._seconds:
            if (left_out := self._count - self._most) > 0:
                self._log.log(level, "%d more lines such as this one were left out: %s", left_out, self._last)
            self._since, self._count = now, 0
        self._count += 1
        self._last = text % args if args else text
        if self._count <= self._most:
            self._log.log(level, text, *args, extra=extra)
