"""What the verbs that match are told about meaning: options that become the knowledge of a matcher or a job."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cyclopts import Parameter

if TYPE_CHECKING:
    from recado.semantics.engine import Knowledge


@Parameter(name="*")
@dataclass(frozen=True)
class Meaning:
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
    frequencies: Path | None = None

    def knowledge(self, similarities: Path | None = None) -> Knowledge:
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
