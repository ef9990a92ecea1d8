"""Which service a command talks to, and as whom: the flags that the commands share."""

from __future__ import annotations

import getpass
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cyclopts import Parameter

from recado.errors import RecadoError

if TYPE_CHECKING:
    from recado.client.http import Http
    from recado.client.urls import Target


@Parameter(name="*")
@dataclass(frozen=True)
class Where:
    """The service. Flags go before RECADO_URL and RECADO_TOKEN, and these before the selected context."""

    url: str = ""
    """The service, such as recado://ana:TOKEN@localhost:7230."""
    context: str = ""
    """A context by its name (see: recado context)."""
    user: str = ""
    """The user to be, where no token says it; else the URL's, else your login name."""

    def target(self, user: str = "") -> Target:
        """What is meant; ``user`` is who to be if nobody says it."""
        import msgspec

        from recado.client.contexts import resolve

        target = resolve(self.url or None, self.context or None)
        name = self.user or target.user or ("" if target.token else user or getpass.getuser())
        return msgspec.structs.replace(target, user=name)

    def http(self) -> Http:
        from recado.client.http import Http

        return Http(self.target())


_INSTANT = re.compile(r"\d{4}-\d\d-\d\d")


def beginning(text: str) -> tuple[int | None, str | None]:
    """``--from``: a position, an instant, or a span back from now such as 15m: (position, since)."""
    from datetime import UTC, datetime, timedelta

    from recado.model.times import format_time, parse_time

    if not text:
        return None, None
    if text == "start":
        return 0, None
    if text.isascii() and text.isdigit():
        return int(text), None
    span = re.fullmatch(r"(\d{1,9})([smhd])", text)
    if span:
        unit = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}[span[2]]
        try:
            return None, format_time(datetime.now(UTC) - timedelta(**{unit: int(span[1])}))
        except OverflowError:  # before the year 1, and so before all events
            return 0, None
    try:
        return None, format_time(parse_time(text))
    except ValueError:
        right = "a position (17), an instant (2026-11-15T10:00:00Z), a span back from now (15m), or start"
        raise RecadoError(f"--from {text!r} is not {right}") from None
