"""What semantic subscriptions are understood by besides the lexicon, as one value.

The service, the command line and jobs on Spark have to give the same matches, so what moves a match stands together
here: what subscriptions leave open (``default``), similarities that people gave, and pairs that they accepted or
refused. Those travel with the value; tables that may be large (``frequencies``, ``similarities``) travel as the path of
a file that every machine of a job can read.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from recado.errors import RecadoError
from recado.semantics.cache import SimilarityCache
from recado.semantics.engine import Semantics
from recado.semantics.frequencies import Frequencies
from recado.semantics.overrides import Given, Overrides, ReviewList, read_pairs
from recado.semantics.settings import DEFAULT, SemanticSettings


class Knowledge(msgspec.Struct, frozen=True):
    """``given`` and ``decided`` are pairs, ``frequencies`` a folder, ``similarities`` a file; empty is none."""

    default: SemanticSettings = DEFAULT
    given: tuple[Given, ...] = ()
    decided: tuple[Given, ...] = ()
    frequencies: str = ""
    similarities: str = ""

    @classmethod
    def read(
        cls,
        *,
        default: SemanticSettings = DEFAULT,
        overrides: str | Path = "",
        frequencies: str | Path = "",
        similarities: str | Path = "",
    ) -> Knowledge:
        """The pairs of the file ``overrides``, and those that were decided in this user's review list."""
        given = tuple(read_pairs(overrides)) if overrides else ()
        files = [str(Path(path).absolute()) if path else "" for path in (frequencies, similarities)]
        return cls(default, given, tuple(ReviewList.load().decided()), *files)

    def semantics(self) -> Semantics:
        """The engine that knows all this; a RecadoError for a table that cannot be used."""
        cache = SimilarityCache()
        made = Semantics(
            frequencies=Frequencies.load(self.frequencies) if self.frequencies else None,
            overrides=Overrides(self.given),
            decided=self.decided,
            cache=cache,
        )
        if self.similarities and not cache.load(Path(self.similarities), made.digest):
            raise RecadoError(
                f"{self.similarities} holds no similarities that were made by the lexicon, overrides and frequencies "
                "in use; make it with: recado pipeline align"
            )
        return made
