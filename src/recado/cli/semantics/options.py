"""What the verbs of ``recado semantics`` are told about meaning: options that become settings and knowledge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import Parameter

from recado.semantics import knowledge as semantics
from recado.semantics.engine import Semantics
from recado.semantics.settings import SemanticSettings, read_settings


@Parameter(name="*")
@dataclass(frozen=True)
class Knowledge:
    """Where similarities come from.

    Parameters
    ----------
    language
        A language of the names, as a code; several are tried in this order.
    overrides
        TOML or JSON file of similarities that win over every measure.
    frequencies
        Folder that `recado pipeline frequencies` wrote.
    """

    language: Annotated[tuple[str, ...], Parameter(name=["--language", "-l"])] = ("en",)
    overrides: str | None = None
    frequencies: str | None = None

    def semantics(self) -> Semantics:
        return semantics.Knowledge.read(overrides=self.overrides or "", frequencies=self.frequencies or "").semantics()


@Parameter(name="*")
@dataclass(frozen=True)
class Wanted:
    """How names are compared.

    Parameters
    ----------
    measure
        A measure that `recado semantics measures` lists.
    option
        An option of the measure, as NAME=VALUE.
    threshold
        A pair must be more alike than this; left out, the measure's own.
    unmatched
        fail: a name without counterpart is an absent attribute; ignore: its predicates are left out.
    one_to_one
        An attribute stands for at most one name.
    envelope
        Let id, type, source and time take part.
    string_values
        SM compares values as strings and not by meaning.
    rename
        Show the event with the attributes under the subscriber's names, too.
    """

    measure: str | None = None
    option: tuple[str, ...] = ()
    threshold: float | None = None
    unmatched: str | None = None
    one_to_one: bool = False
    envelope: bool = False
    string_values: bool = False
    rename: bool = False

    def settings(self, language: tuple[str, ...], own: dict[str, Any] | None = None) -> SemanticSettings:
        """The settings of a subscription, over which the command's options win."""
        members: dict[str, Any] = {"language": list(language)} | (own or {})
        if self.measure is not None:
            members |= {"measure": self.measure}
            members.pop("options", None)
        if self.option:
            members["options"] = dict(map(read_option, self.option))
        named = {"threshold": self.threshold, "unmatched": self.unmatched}
        members |= {name: value for name, value in named.items() if value is not None}
        if self.one_to_one:
            members["assignment"] = "one-to-one"
        if self.envelope:
            members["envelope"] = True
        if self.string_values:
            members["values"] = "string"
        if self.rename:
            members["rename"] = True
        settings = read_settings(members, place="semantic")
        assert settings is not None
        return settings


def read_option(text: str) -> tuple[str, Any]:
    """``share=0.4`` as a name and a number or a text."""
    name, _, value = text.partition("=")
    try:
        return name.strip(), float(value)
    except ValueError:
        return name.strip(), value.strip()
