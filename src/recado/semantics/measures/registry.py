"""The measures that configuration can name, each with its options and the threshold it is used with.

A *factory* takes what measures are made from (``Resources``: the lexicon and so on, loaded when asked for) and the
options as keyword arguments, whose names and defaults are read from its signature. ``register`` adds one's own::

    register("initials", lambda resources: Initials(), threshold=0.9)

So does a package that has an entry point of the group ``recado.measures``: its name is the measure's, and it leads to
the factory, which may have attributes ``threshold``, ``needs_lexicon`` and ``about``. Configuration can then name it in
every process.

The default thresholds are where each measure was best on the probe set of 13.6; they differ by a factor of eight, so a
threshold means nothing without its measure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from inspect import Parameter, signature
from keyword import iskeyword
from typing import Any, NamedTuple, Protocol

from recado.errors import RecadoError
from recado.semantics.embedding.model import load_model
from recado.semantics.frequencies import Frequencies
from recado.semantics.lexicon.information import Information
from recado.semantics.lexicon.wordnet import Lexicon
from recado.semantics.measures.base import NameMeasure
from recado.semantics.measures.names import LAMBDA, SCORERS, Embedding, Feng, Hybrid, Mean, Strings
from recado.semantics.measures.wordnet import WordNetWords, WordPairs


class Resources(Protocol):
    """What measures are made from."""

    @property
    def lexicon(self) -> Lexicon: ...

    @property
    def frequencies(self) -> Frequencies | None: ...

    @property
    def word_pairs(self) -> WordPairs: ...

    def information(self, source: str) -> Information: ...


PLUGINS = "recado.measures"
Factory = Callable[..., NameMeasure]
Thresholds = Callable[[Mapping[str, Any]], float]


class Entry(NamedTuple):
    make: Factory
    threshold: Thresholds
    needs_lexicon: bool
    about: str


_entries: dict[str, Entry] = {}


def register(
    name: str, factory: Factory, *, threshold: float | Thresholds = 0.5, needs_lexicon: bool = False, about: str = ""
) -> None:
    """Make a measure known under a name; an earlier one of that name is replaced.

    Without ``needs_lexicon`` the measure gets names as plain tokens, and works where no lexicon is installed.
    """
    default = threshold if callable(threshold) else lambda options: float(threshold)
    _entries[name] = Entry(factory, default, needs_lexicon, about)


def measure_names() -> list[str]:
    return list(dict.fromkeys([*_entries, *entry_points(group=PLUGINS).names]))


def find(name: Any) -> Entry:
    """What is registered under the name; a RecadoError lists what there is."""
    wanted = name if isinstance(name, str) else ""
    if wanted not in _entries:
        for plugin in entry_points(group=PLUGINS, name=wanted):
            _register_plugin(plugin)
    if wanted not in _entries:
        known = measure_names()
        close = get_close_matches(wanted, known, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ";"
        raise RecadoError(f"there is no measure {name!r}{hint} there are {', '.join(known)}")
    return _entries[wanted]


def _register_plugin(plugin: EntryPoint) -> None:
    try:
        factory = plugin.load()
        signature(factory)
    except Exception as error:
        raise RecadoError(f"the measure {plugin.name!r} ({plugin.value}) cannot be loaded: {error}") from error
    said = {name: getattr(factory, name) for name in ("threshold", "needs_lexicon", "about") if hasattr(factory, name)}
    register(plugin.name, factory, **said)


def options_of(name: str) -> dict[str, Any]:
    """The options that a measure takes, with their defaults."""
    parameters = list(signature(find(name).make).parameters.values())[1:]
    return {one.name.rstrip("_"): one.default for one in parameters if one.kind is not Parameter.VAR_KEYWORD}


def make(name: str, resources: Resources, options: Mapping[str, Any]) -> NameMeasure:
    """A measure with these options; a RecadoError for one that it does not take."""
    known = options_of(name)
    for option in options:
        if option not in known:
            there = f"it has {', '.join(known)}" if known else "it has none"
            raise RecadoError(f"the measure {name!r} has no option {option!r}; {there}")
    return find(name).make(resources, **{_argument(option): value for option, value in options.items()})


def _argument(option: str) -> str:
    return f"{option}_" if iskeyword(option) else option


# -- the shipped ones --------------------------------------------------------------------------------------------------


def _words(resources: Resources, word: str, information: str) -> WordNetWords:
    return WordNetWords(word, resources.lexicon, resources.information(information), resources.word_pairs)


def _mean(resources: Resources, *, word: str = "jcn", mode: str = "best", information: str = "semcor") -> Mean:
    return Mean(_words(resources, word, information), mode, f"mean({word}, {mode}, {information})")


def _feng(resources: Resources, *, word: str = "jcn", information: str = "semcor", lambda_: float = LAMBDA) -> Feng:
    share = _number("lambda", lambda_)
    return Feng(_words(resources, word, information), share, f"feng({word}, {information}, {share:g})")


def _embedding(resources: Resources) -> Embedding:
    return Embedding(load_model())


def _hybrid(
    resources: Resources,
    *,
    word: str = "jcn",
    information: str = "semcor-add1",
    lambda_: float = LAMBDA,
    share: float = 0.5,
) -> Hybrid:
    feng = _feng(resources, word=word, information=information, lambda_=lambda_)
    return Hybrid((Embedding(load_model()), feng), _number("share", share))


def _strings(scorer: str) -> Factory:
    return lambda resources: Strings(scorer)


def _number(option: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RecadoError(f"the option {option!r} must be a number, not {value!r}")
    return float(value)


_MEAN = {
    "best": {"jcn": 0.24, "lin": 0.80, "wup": 0.78, "res": 0.48},
    "all": {"jcn": 0.19, "lin": 0.59, "wup": 0.65, "res": 0.46},
}
_FENG = {"jcn": 0.25, "lin": 0.58, "wup": 0.70, "res": 0.44}
_STRINGS = {"levenshtein": 0.34, "token-set": 0.61, "jaro-winkler": 0.56}


def _register_shipped() -> None:
    register(
        "hybrid",
        _hybrid,
        threshold=0.31,
        needs_lexicon=True,
        about="the mean of embedding and Feng; the best one measured",
    )
    register("embedding", _embedding, threshold=0.51, needs_lexicon=True, about="cosine of MiniLM sentence vectors")
    register(
        "feng",
        _feng,
        threshold=lambda options: _FENG.get(options.get("word", "jcn"), 0.25),
        needs_lexicon=True,
        about="weighted best match of enriched names, and word order",
    )
    register(
        "mean",
        _mean,
        threshold=lambda options: _MEAN.get(options.get("mode", "best"), {}).get(options.get("word", "jcn"), 0.24),
        needs_lexicon=True,
        about="average similarity of the words",
    )
    for scorer in SCORERS:
        register(scorer, _strings(scorer), threshold=_STRINGS.get(scorer, 0.6), about="similarity of the spelling")


_register_shipped()
