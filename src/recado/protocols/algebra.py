"""The common filter algebra over filter texts, with its answers kept.

Routing tables hold filters as text. The same pairs of filters meet on many nodes, and the same event meets the same
filter on many nodes, so each question is worked out once for all machines of a process. The caches change nothing but
the time: every function here depends on its arguments alone.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b

from recado.filters import covering, evaluate
from recado.filters import covering as merging
from recado.filters.normal import filter_key
from recado.filters.terms import Term, TooManyTermsError, is_covered, terms_of
from recado.model.event import Event
from recado.model.filter import And, Compare
from recado.protocols.wire import read_filter, write_filter

FILTERS = 1 << 16
PAIRS = 1 << 18
EVENTS = 256


@lru_cache(FILTERS)
def name_of(text: str) -> str:
    """A short name that filters share only if they mean the same."""
    key = filter_key(read_filter(text))
    return blake2b(key.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


@lru_cache(FILTERS)
def type_of(text: str) -> str:
    """The one event type that the filter plainly asks for; empty if there is no such."""
    filter = read_filter(text)
    for part in filter.parts if isinstance(filter, And) else (filter,):
        if isinstance(part, Compare) and part.name == "type" and part.op == "==" and isinstance(part.value, str):
            return part.value
    return ""


@lru_cache(PAIRS)
def covers(text: str, other: str) -> bool:
    """Does every event that matches ``other`` certainly match ``text``?"""
    kind = type_of(text)
    if kind and type_of(other) not in ("", kind):
        return False
    union, cases = _terms(text), _terms(other)
    if union is None or cases is None:
        return covering.covers(read_filter(text), read_filter(other))
    return all(is_covered(case, union) for case in cases)


@lru_cache(PAIRS)
def merge(text: str, other: str) -> str | None:
    """The perfect merger of two filters, if there is one."""
    if covers(text, other):
        return text
    if covers(other, text):
        return other
    if not _may_merge(text, other):
        return None
    merger = merging.merge(read_filter(text), read_filter(other))
    return None if merger is None else write_filter(merger)


@lru_cache(PAIRS)
def join(text: str, other: str) -> str:
    """An imperfect merger: it matches what either filter matches, and perhaps more."""
    return write_filter(merging.merge_imperfect(read_filter(text), read_filter(other)))


@lru_cache(PAIRS)
def likeness(text: str, other: str) -> int:
    """On how many attributes two conjunctions agree; less than none if either is no conjunction."""
    terms, others = _term(text), _term(other)
    if terms is None or others is None:
        return -1
    return sum(terms[name] == others.get(name) for name in terms)


def _may_merge(text: str, other: str) -> bool:
    """Not if both are conjunctions that differ on two attributes: boxes make a box only along one side."""
    terms, others = _term(text), _term(other)
    if terms is None or others is None:
        return True
    return sum(terms.get(name) != others.get(name) for name in dict.fromkeys((*terms, *others))) <= 1


def _term(text: str) -> Term | None:
    """The filter as one conjunction, if it is one."""
    terms = _terms(text)
    return terms[0] if terms is not None and len(terms) == 1 else None


@lru_cache(FILTERS)
def _terms(text: str) -> list[Term] | None:
    """The filter as a union of conjunctions, unless there are too many."""
    try:
        return terms_of(read_filter(text))
    except TooManyTermsError:
        return None


class Answers:
    """Which filters an event matches, each worked out when it is first asked."""

    __slots__ = ("_known", "event")

    def __init__(self, event: Event) -> None:
        self.event = event
        self._known: dict[str, bool] = {}

    def __call__(self, text: str) -> bool:
        answer = self._known.get(text)
        if answer is None:
            answer = self._known[text] = evaluate.matches(read_filter(text), self.event)
        return answer


_recent: dict[int, Answers] = {}


def answers(event: Event) -> Answers:
    """The answers for an event. An entry holds its event, so no other object can have the same identity meanwhile."""
    found = _recent.get(id(event))
    if found is None:
        if len(_recent) >= EVENTS:
            del _recent[next(iter(_recent))]
        found = _recent[id(event)] = Answers(event)
    return found
