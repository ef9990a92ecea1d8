"""How a subscription wants its names understood: the member ``semantic`` of its record (6).

    {"id": "s-1", "filter": "{sale price, GT, 50}", "semantic": {"measure": "feng", "threshold": 0.25}}

An empty object means the defaults of the service or job; every member is optional:

    measure     a registered measure, and ``options`` for it, such as {"word": "jcn", "mode": "best"}
    threshold   a pair must be *more* alike than this; left out, the measure's own
    unmatched   what a name without counterpart means: ``fail`` (its predicates are false, as for an absent attribute)
                or ``ignore`` (its predicates are left out, as in the document's Algorithm 1)
    assignment  ``best`` (an attribute may stand for several names), ``one-to-one``, or a strategy that a package adds
    language    a code such as "en", or a list of codes that are tried, such as ["en", "pt"]
    envelope    true lets id, type, source and time take part; else those names mean themselves only
    values      how ``similar`` (SM) compares values: ``semantic`` (by the measure) or ``string`` (as without semantics)
    value_threshold  values must be more alike than this; left out, the threshold of names
    vetoes      false: the measure alone decides, as in the document
    margin      pairs this close to the threshold are uncertain and offered for review
    rename      true: the notification has the attributes under the subscriber's names too
    explain     true: the notification says which attribute stood for which name, and how alike they are
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Literal, NoReturn

import msgspec

from recado.errors import RecadoError, SubscriptionError
from recado.semantics.lexicon.languages import alpha3
from recado.semantics.measures import registry
from recado.semantics.plugins import Plugins

Unmatched = Literal["fail", "ignore"]
Values = Literal["semantic", "string"]
LANGUAGES = 8


class SemanticSettings(msgspec.Struct, frozen=True):
    """See the module; ``threshold`` None is the measure's own."""

    measure: str = "hybrid"
    options: dict[str, Any] = {}
    threshold: float | None = None
    unmatched: Unmatched = "fail"
    assignment: str = "best"
    languages: tuple[str, ...] = ("eng",)
    envelope: bool = False
    values: Values = "semantic"
    margin: float = 0.05
    rename: bool = False
    explain: bool = False
    value_threshold: float | None = None
    vetoes: bool = True

    @property
    def value_limit(self) -> float:
        """The threshold of values that are compared by meaning: their own, else that of names."""
        return self.limit if self.value_threshold is None else self.value_threshold

    @property
    def limit(self) -> float:
        """The threshold in force."""
        return registry.find(self.measure).threshold(self.options) if self.threshold is None else self.threshold

    def __hash__(self) -> int:
        return hash((self.measure, tuple(sorted(self.options.items())), self.threshold, self.languages, self.vetoes))


strategies: Plugins[Callable[[Any, float], Sequence[int]]] = Plugins("recado.strategies", "strategy")
"""Functions of the similarities (a row for each name, a column for each attribute) and the threshold, which give for
each name the number of its attribute, or -1."""

DEFAULT = SemanticSettings()


def read_settings(
    semantic: Mapping[str, Any] | None, default: SemanticSettings = DEFAULT, place: str = "$.semantic"
) -> SemanticSettings | None:
    """The settings that an object describes over the defaults; None for none: names mean themselves.

    A SubscriptionError names the member that is wrong. Options of the default hold only for the default's measure.
    """
    if semantic is None:
        return None
    if not isinstance(semantic, Mapping):
        raise SubscriptionError(f'{place}: must be an object such as {{"threshold": 0.3}}, not {semantic!r}')
    members = {name: _Reader(place, name).read(value) for name, value in semantic.items()}
    if "language" in members:
        members["languages"] = members.pop("language")
    if members.get("measure", default.measure) != default.measure:
        members.setdefault("options", {})
        members.setdefault("threshold", None)
        members.setdefault("value_threshold", None)
    settings = msgspec.structs.replace(default, **members)
    _check_options(settings, place)
    return settings


def _check_options(settings: SemanticSettings, place: str) -> None:
    known = registry.options_of(settings.measure)
    for option, value in settings.options.items():
        if option not in known:
            there = f"it has {', '.join(known)}" if known else "it has none"
            raise SubscriptionError(
                f"{place}.options.{option}: the measure {settings.measure!r} has no such option; {there}"
            )
        if not isinstance(value, str | int | float):
            raise SubscriptionError(f"{place}.options.{option}: must be a text or a number, not {value!r}")


class _Reader:
    """Reads one member; it knows the place."""

    def __init__(self, place: str, name: str) -> None:
        self._place = f"{place}.{name}"
        self._name = name

    def read(self, value: Any) -> Any:
        readers = {
            "measure": self._measure,
            "options": self._object,
            "threshold": self._share,
            "unmatched": self._choice("fail", "ignore"),
            "assignment": self._assignment,
            "language": self._languages,
            "envelope": self._flag,
            "values": self._choice("semantic", "string"),
            "value_threshold": self._share,
            "vetoes": self._flag,
            "margin": self._share,
            "rename": self._flag,
            "explain": self._flag,
        }
        if self._name not in readers:
            close = get_close_matches(self._name, readers, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(readers)}"
            self._fail(f"there is no such member; {hint}")
        return readers[self._name](value)

    def _fail(self, reason: str) -> NoReturn:
        raise SubscriptionError(f"{self._place}: {reason}")

    def _measure(self, value: Any) -> str:
        try:
            registry.find(value)
        except RecadoError as error:
            self._fail(str(error))
        return str(value)

    def _object(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            self._fail(f'must be an object such as {{"word": "jcn"}}, not {value!r}')
        return dict(value)

    def _share(self, value: Any) -> float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not is_number or not 0 <= value <= 1:
            self._fail(f"must be a number from 0 to 1, not {value!r}")
        return float(value)

    def _flag(self, value: Any) -> bool:
        if not isinstance(value, bool):
            self._fail(f"must be true or false, not {value!r}")
        return value

    def _choice(self, *choices: str) -> Any:
        def read(value: Any) -> str:
            if value not in choices:
                self._fail(f"must be {' or '.join(choices)}, not {value!r}")
            return str(value)

        return read

    def _assignment(self, value: Any) -> str:
        if value not in ("best", "one-to-one", *strategies.names()):
            self._fail(f"must be best or one-to-one, or name a strategy that is installed, not {value!r}")
        return str(value)

    def _languages(self, value: Any) -> tuple[str, ...]:
        codes = [value] if isinstance(value, str) else value
        if not isinstance(codes, list | tuple) or not 0 < len(codes) <= LANGUAGES:
            self._fail(f'must be a language such as "en", or a list of at most {LANGUAGES}, not {value!r}')
        for code in codes:
            if not isinstance(code, str) or not (2 <= len(code) <= 3 and code.isascii() and code.isalpha()):
                self._fail(f"{code!r} is not a code of ISO 639 such as en or por")
        return tuple(dict.fromkeys(alpha3(code) for code in codes))
