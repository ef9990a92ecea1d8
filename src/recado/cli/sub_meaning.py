"""The flags of commands that ask the service for events by meaning: they become the member ``semantic``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cyclopts import Parameter


@Parameter(name="*")
@dataclass(frozen=True)
class ByMeaning:
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
