"""The flags that verbs share, and what they stand for: the service, the place in its log, how names are understood.

A group of flags is a frozen dataclass; a verb takes it as one parameter.
"""

from __future__ import annotations

import getpass
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from recado.errors import RecadoError

if TYPE_CHECKING:
    from recado.client.http import HttpClient
    from recado.client.urls import Target
    from recado.semantics.engine import Knowledge
    from recado.server.config import Config

# --- the service -----------------------------------------------------------------------------------------------------


@Parameter(name="*")
@dataclass(frozen=True)
class ServiceFlags:
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

        from recado.client.urls import resolve

        target = resolve(self.url or None, self.context or None)
        name = self.user or target.user or ("" if target.token else user or getpass.getuser())
        return msgspec.structs.replace(target, user=name)

    def http(self) -> HttpClient:
        from recado.client.http import HttpClient

        return HttpClient(self.target())


@Parameter(name="*")
@dataclass(frozen=True)
class ListFlags:
    """Which part of a list of the service is shown, and how."""

    of: str = ""
    """Those of this user; 'an*' for those of users whose names begin so, '*' for those of everybody."""
    prefix: str = ""
    """Only those whose names begin so: subscriptions by their ids, sessions and mailboxes by their devices."""
    limit: Annotated[int, Parameter(validator=Number(gte=0))] = 0
    """At most so many; 0 for all."""
    json: bool = False
    """Write NDJSON even on a terminal."""


def parse_start(text: str) -> tuple[int | None, str | None]:
    """``--from``: a position, an instant, or a span back from now such as 15m: (position, since)."""
    from datetime import UTC, datetime, timedelta

    from recado.model.values import format_time, parse_time

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


def service_config(
    config: Path | None,
    data: Path | None = None,
    host: str | None = None,
    port: int | None = None,
    sip: str | None = None,
) -> Config:
    """The configuration of a file, or the defaults, with what the command line says instead."""
    import msgspec

    from recado.server.config import Config, read_config

    chosen = read_config(config) if config is not None else Config()
    if data is not None:
        chosen = msgspec.structs.replace(chosen, data=str(data))
    changes = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    if changes:
        chosen = msgspec.structs.replace(chosen, http=msgspec.structs.replace(chosen.http, **changes))
    if sip is not None:
        chosen = msgspec.structs.replace(chosen, sip=msgspec.structs.replace(chosen.sip, registrar=sip))
    return chosen


# --- names by meaning ------------------------------------------------------------------------------------------------


@Parameter(name="*")
@dataclass(frozen=True)
class SemanticFlags:
    """Names by meaning; what is left out is the service's default."""

    semantic: bool = False
    """Let other words of the same meaning match. The flags below imply it."""
    measure: str = ""
    """How alike names are: a measure that `recado semantics measures` lists."""
    threshold: float | None = None
    """Names must be more alike than this, from 0 to 1."""
    unmatched: str = ""
    """What a name without a similar one does to a match: fail or ignore."""
    language: str = ""
    """Of the names; several with commas, such as en,pt."""
    rename: bool = False
    """Show attributes under the names of the filter, too."""
    explain: bool = False
    """Show which attribute stood for which name, and how alike they are."""

    def record(self) -> dict[str, Any] | None:
        """None if names mean themselves."""
        languages = [code.strip() for code in self.language.split(",") if code.strip()]
        members = {
            "measure": self.measure or None,
            "threshold": self.threshold,
            "unmatched": self.unmatched or None,
            "language": languages or None,
            "rename": self.rename or None,
            "explain": self.explain or None,
        }
        given = {name: value for name, value in members.items() if value is not None}
        return given if given or self.semantic else None


@Parameter(name="*")
@dataclass(frozen=True)
class KnowledgeFlags:
    """How semantic subscriptions are understood; their own ``semantic`` wins.

    Parameters
    ----------
    measure
        For semantic subscriptions that name no measure: one that `recado semantics measures` lists.
    threshold
        For those that name no threshold; left out, the measure's own.
    unmatched
        For those that do not say: fail or ignore.
    overrides
        For semantic subscriptions: file of similarities that people gave.
    frequencies
        For semantic subscriptions: folder that `recado pipeline frequencies` wrote.
    """

    measure: str | None = None
    threshold: float | None = None
    unmatched: str | None = None
    overrides: Path | None = None
    frequencies: str | None = None

    def knowledge(self, similarities: str | None = None) -> Knowledge:
        """All of it, with the pairs that were accepted or refused in the review list."""
        from recado.semantics.engine import Knowledge
        from recado.semantics.settings import read_settings

        named = {"measure": self.measure, "threshold": self.threshold, "unmatched": self.unmatched}
        members: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
        default = read_settings(members, place="semantic")
        assert default is not None  # there is an object
        return Knowledge.read(
            default=default,
            overrides=self.overrides or "",
            frequencies=self.frequencies or "",
            similarities=similarities or "",
        )
