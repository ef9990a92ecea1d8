"""Semantic subscriptions at the speed of exact ones: an index by content that understands other words.

The interface is the index's. Exact subscriptions are in an index of their own and cost what they always cost. The
filters of semantic ones are in a second index, over aliases of their names (``matcher_terms``); an event is shown to it
with its values under the aliases that its shape is aligned with (``matcher_shapes``). So an alignment is decided once
for each shape, and matching an event with known names asks no measure. Results are always those of the plain oracle,
``recado.semantics.match``.

An array stands for one of its elements. Several aliases may stand for one array, and all must mean the same element, so
arrays are expanded before aliases are given.

A matcher may begin ``plain``: then subscriptions are evaluated one by one, semantic ones by the oracle, until
``compile`` is called. So it works before the kernels are there, and loads none.

The lexicon is loaded by ``check`` or by the first semantic subscription. If that fails, a RecadoError says why, the
subscription is not added, and exact matching goes on.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from recado.errors import RecadoError, SubscriptionError
from recado.filters.cost import check_filter
from recado.filters.evaluate import Steps, Work, decide, names_of
from recado.matching.staged import StagedIndex
from recado.matching.undecided import (
    Sifted,
    Sifting,
    Undecided,
    evaluation,
    is_narrow,
    sift_event,
    sift_events,
    sift_texts,
)
from recado.model.event import Event, expansions
from recado.model.filter import Filter
from recado.model.subscription import Subscription, check_id
from recado.model.values import Value
from recado.semantics.alignment import (
    Alignment,
    choose_by_strategy,
    constraint_names,
    convert_values,
    rename_event,
    tell_units,
)
from recado.semantics.alignment import views as converted_views
from recado.semantics.engine import Semantics, shared
from recado.semantics.match import Match, asked_of, attribute_names, callbacks, semantic_match, tell_callbacks
from recado.semantics.matcher_shapes import PAIRS, SHAPES, STEP_NAMES, Plan, Shapes, Shown, Similar, Texts
from recado.semantics.matcher_terms import REMEMBERED, REMEMBERED_CHARS, Term, Vocabulary, may_grow_too_long, meanings
from recado.semantics.settings import DEFAULT, SemanticSettings, read_settings

if TYPE_CHECKING:
    from recado.semantics.matcher_index import AliasIndex

BATCH_FROM = 32
"""So many events are worth a batch."""
SHAPE_EVENTS = 8
"""Of one shape, on average, so many are worth one."""
AT_A_TIME = 4_096
LOADED_AT_A_TIME = 16_384
WARM_NAMES = 1_024
"""So many attributes, of the shapes that came last, are compared with the names of a new subscription."""
BY_HAND_STEPS = 4_096
"""What it costs to bring the names of an event and of a filter together, about."""


class _SemanticSubscription(msgspec.Struct, frozen=True, gc=False):
    """A semantic subscription; whether each event is matched with it by hand, and its values compared by meaning."""

    subscription: Subscription
    settings: SemanticSettings
    by_hand: bool
    compares: bool


class SemanticMatcher:
    """``default`` is what a subscription's ``semantic`` leaves open; ``semantics`` the process's own unless given.

    Call-backs are told of matches, unless ``tells`` is False.
    """

    def __init__(
        self,
        semantics: Semantics | None = None,
        default: SemanticSettings = DEFAULT,
        *,
        shapes: int = SHAPES,
        pairs: int = PAIRS,
        plain: bool = False,
        tells: bool = True,
    ) -> None:
        self.exact = StagedIndex(plain=plain)
        self._tells = tells
        self.default = default
        self.semantics = semantics or shared()
        self._index: AliasIndex | None = None
        self._vocabulary = Vocabulary()
        self._shapes = Shapes(self._vocabulary, self.semantics, shapes, pairs)
        self._held: dict[str, _SemanticSubscription] = {}
        self._by_hand: dict[str, _SemanticSubscription] = {}
        self._renaming: dict[str, None] = {}
        self._explaining: dict[str, None] = {}
        self._settings: dict[bytes, SemanticSettings] = {}
        self._loaded: dict[SemanticSettings, None] = {}
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self.exact) + len(self._held)

    def __contains__(self, subscription_id: str) -> bool:
        return subscription_id in self._held or subscription_id in self.exact

    @property
    def _aliased(self) -> AliasIndex:
        """The index over aliases; it comes with the first subscription in it, for it loads the kernels."""
        if self._index is None:
            from recado.semantics.matcher_index import AliasIndex  # noqa: PLC0415  # see above

            self._index = AliasIndex()
        return self._index

    def compile(self) -> None:
        """If it is plain, evaluating filters one by one, put all subscriptions into compiled indexes."""
        self.exact.compile()
        with self._lock:
            for held in list(self._by_hand.values()):
                if not may_grow_too_long(held.subscription.filter):
                    self.add(held.subscription, checked=True)

    @property
    def semantic(self) -> int:
        """How many of the subscriptions are semantic."""
        return len(self._held)

    @property
    def shapes(self) -> int:
        """How many shapes of events are known."""
        return len(self._shapes)

    def is_semantic(self, subscription_id: str) -> bool:
        """Is there such a subscription, and is it semantic?"""
        return subscription_id in self._held

    @property
    def has_loaded(self) -> bool:
        """Was a lexicon asked for already?"""
        return bool(self._loaded)

    def knows_shape(self, event: Event) -> bool:
        """Are the names of the event aligned with those of all subscriptions?"""
        return self._shapes.known(event) is not None

    def terms(self) -> list[Term]:
        """The names of semantic subscriptions, with the settings they are understood by."""
        with self._lock:
            return list(self._vocabulary.terms)

    def forget_shapes(self) -> None:
        """Align every shape anew when it comes next; for measurements."""
        with self._lock:
            self._shapes.clear()

    # -- changes -------------------------------------------------------------------------------------------------------

    def settings(self, subscription: Subscription) -> SemanticSettings | None:
        """How a subscription wants its names understood; a SubscriptionError names what is wrong."""
        if subscription.semantic is None:
            return None
        key = msgspec.json.encode(subscription.semantic, order="deterministic")
        found = self._settings.get(key)
        if found is None:
            found = read_settings(subscription.semantic, self.default)
            assert found is not None  # there is an object
            if len(self._settings) < AT_A_TIME:
                self._settings[key] = found
        return found

    def check(self, subscription: Subscription) -> None:
        """Load what the subscription's settings need; an error says what is missing. It may take a second."""
        settings = self.settings(subscription)
        if settings is not None:
            self._load(settings)

    def _load(self, settings: SemanticSettings) -> None:
        if settings in self._loaded:
            return
        try:
            self.semantics.similarities(["price"], ["cost"], settings)
            if settings.assignment != "best":
                self.semantics.align(["price"], ["cost"], settings)
            if settings.assignment not in ("best", "one-to-one"):
                choose_by_strategy(np.ones((1, 1)), settings)
        except RecadoError as error:
            raise SubscriptionError(f"$.semantic: cannot be used here: {error}") from None
        if len(self._loaded) < AT_A_TIME:
            self._loaded[settings] = None

    def add(self, subscription: Subscription, checked: bool = False) -> None:
        """Add a subscription, or replace the one that has its id."""
        settings = self.settings(subscription)
        if settings is None:
            self.exact.add(subscription, checked=checked)
            if subscription.id in self._held:
                self._remove_semantic(subscription.id)
            return
        with self._lock:
            aliased = self._enter(subscription, settings, checked)
            if aliased is not None:
                self._aliased.add(aliased, checked=True)
            self.exact.remove(subscription.id)

    def add_many(self, subscriptions: Iterable[Subscription], checked: bool = False) -> int:
        """Add all of them; how many were given."""
        count = 0
        waiting = iter(subscriptions)
        while some := list(islice(waiting, LOADED_AT_A_TIME)):
            count += len(some)
            some = list({subscription.id: subscription for subscription in some}.values())  # the last of an id counts
            self.exact.add_many([s for s in some if s.semantic is None], checked=checked)
            for subscription in some:
                if subscription.semantic is None and subscription.id in self._held:
                    self._remove_semantic(subscription.id)
            with self._lock:
                semantic = [subscription for subscription in some if subscription.semantic is not None]
                entered = self._enter_many(semantic, checked)
                if semantic and self.exact.is_compiled:
                    self._aliased.add_many(entered, True)
                else:
                    deque(entered, 0)  # they are matched by hand
        return count

    def _enter_many(self, subscriptions: list[Subscription], checked: bool) -> Iterator[Subscription]:
        for subscription in subscriptions:
            settings = self.settings(subscription)
            assert settings is not None
            aliased = self._enter(subscription, settings, checked)
            self.exact.remove(subscription.id)
            if aliased is not None:
                yield aliased

    def _enter(self, subscription: Subscription, settings: SemanticSettings, checked: bool) -> Subscription | None:
        """Hold the subscription; what is to be put into the index, if anything."""
        id = subscription.id
        if not checked:
            check_id(id)
            check_filter(subscription.whole_filter())
        self._load(settings)
        before = self._held.get(id)
        by_hand = not self.exact.is_compiled or may_grow_too_long(subscription.filter)
        filter = subscription.filter if by_hand else self._vocabulary.enter(subscription.filter, settings)
        if before is not None:
            self._remove_semantic(id)
        held = self._held[id] = _SemanticSubscription(
            subscription, settings, by_hand, any(True for _ in meanings(subscription.filter, settings))
        )
        if settings.rename:
            self._renaming[id] = None
        if settings.explain:
            self._explaining[id] = None
        if by_hand:
            self._by_hand[id] = held
            return None
        return Subscription(id, filter, subscription.type)

    def remove(self, subscription_id: str) -> bool:
        """Remove a subscription; False if there is none with this id."""
        if subscription_id in self._held:
            return self._remove_semantic(subscription_id)
        return self.exact.remove(subscription_id)

    def _remove_semantic(self, subscription_id: str) -> bool:
        with self._lock:
            held = self._held.pop(subscription_id, None)
            if held is None:
                return False
            self._by_hand.pop(subscription_id, None)
            self._renaming.pop(subscription_id, None)
            self._explaining.pop(subscription_id, None)
            if not held.by_hand:
                self._aliased.remove(subscription_id)
                self._vocabulary.leave(held.subscription.filter, held.settings)
            return True

    # -- matching ------------------------------------------------------------------------------------------------------

    def match(self, event: Event) -> list[str]:
        """The ids of the matching subscriptions, sorted."""
        found = self.exact.match(event) if len(self.exact) else []
        if not self._held:
            return found
        with self._lock:
            also = self._match_by_hand(event)
            if self._index is not None:
                also += self._index.match_views(self._show(event))
        if also:
            self._tell(event, also)
        return sorted(found + also) if also else found

    def _tell(self, event: Event, ids: Iterable[str]) -> None:
        if self._tells and callbacks:
            for subscription_id in ids:
                tell_callbacks(event, subscription_id)

    def match_many(self, events: Sequence[Event]) -> list[list[str]]:
        """The same for each of many events, in the order of the index."""
        if len(events) < BATCH_FROM:
            return [self.match(event) for event in events]
        found = self.exact.match_many(events)
        if not self._held:
            return found
        with self._lock:
            if self._index is not None:
                also = self._match_shown([self._show(event) for event in events])
                for ids, others in zip(found, also, strict=True):
                    ids += others
            if self._by_hand:
                for event, ids in zip(events, found, strict=True):
                    ids += self._match_by_hand(event)
        if self._tells and callbacks:
            for event, ids in zip(events, found, strict=True):
                self._tell(event, (id for id in ids if id in self._held))
        return found

    def sifting(self, events: Sequence[Event], texts: Sequence[bytes] | None = None) -> Generator[None, None, Sifted]:
        """Match in steps that each take a short while, and leave what takes long as work to do.

        ``texts`` are those of the events, flat JSON, if they are at hand: from them many events are matched sooner.

        Subscriptions may come and go between two steps. The found, and those of the undecided that turn out true, are
        what ``match_many`` gives; an id may be among both.
        """
        found: list[list[str]] = [[] for _ in events]
        undecided: list[Undecided] = []
        narrow = [number for number, event in enumerate(events) if is_narrow(event)]
        together = narrow if len(narrow) >= BATCH_FROM else []
        alone = sorted(set(range(len(events))) - set(together))
        if together and len(self.exact):
            some = [events[number] for number in together]
            plain = self.exact.filters()
            if plain is None:
                index = self.exact.compiled
                if texts is None:
                    sifted = sift_events(index, some, together)
                else:
                    sifted = sift_texts(index, [texts[number] for number in together], some, together)
                _gather(sifted, together, found, undecided)
            else:
                undecided += [_decide_later(event, number, plain) for event, number in zip(some, together, strict=True)]
            yield
        if together and self._index is not None:
            with self._lock:
                self._sift_shown([self._show(events[number]) for number in together], together, found, undecided)
            yield
        for number in alone:
            for sifting in self._sift_alone(events[number], number):
                ids, left = yield from sifting
                found[number] += ids
                undecided += left
                yield
        if self._by_hand:
            owners, held = [[id] for id in self._by_hand], list(self._by_hand.values())
            undecided += [
                Undecided(number, owners, held, partial(self._decide_by_hand, event))
                for number, event in enumerate(events)
            ]
        undecided.sort(key=itemgetter(0))
        return Sifted(found, undecided)

    def _sift_alone(self, event: Event, number: int) -> Iterator[Sifting]:
        if len(self.exact):
            held = self.exact.filters()
            yield sift_event(self.exact.compiled, event, number) if held is None else _sift_plainly(event, number, held)
        if self._index is not None:
            yield self._aliased.sifting(self._show_views(event), number)

    def _sift_shown(
        self, shown: list[list[Shown]], numbers: list[int], found: list[list[str]], undecided: list[Undecided]
    ) -> None:
        """In one go; one by one if they are of too many shapes to have columns in common."""
        if len({id(views[0].plan) for views in shown}) * SHAPE_EVENTS <= len(shown):
            _gather(self._aliased.sift_many(shown, numbers), numbers, found, undecided)
            return
        for views, number in zip(shown, numbers, strict=True):
            ids, left = _result(self._aliased.sifting(views, number))
            found[number] += ids
            undecided += left

    def _decide_by_hand(self, event: Event, held: _SemanticSubscription, work: Work) -> Steps:
        yield BY_HAND_STEPS
        asked, alignment = asked_of(event, held.subscription, held.settings, self.semantics)
        return (yield from decide(asked, converted_views(event, names_of(asked), alignment.readings()), work))

    def _match_shown(self, shown: list[list[Shown]]) -> list[list[str]]:
        """In one go; one by one if they are of too many shapes to have columns in common."""
        if len({id(views[0].plan) for views in shown}) * SHAPE_EVENTS > len(shown):
            return [self._aliased.match_views(views) for views in shown]
        owners = [owner for owner, views in enumerate(shown) for _ in views]
        return self._aliased.match_many(list(chain.from_iterable(shown)), owners, len(shown))

    def _show(self, event: Event) -> list[Shown]:
        """The event under its aliases, once for each choice of elements."""
        return list(self._show_views(event))

    def _show_views(self, event: Event) -> Iterator[Shown]:
        """The same, each when it is asked for."""
        with self._lock:
            plan = self._shapes.plan(event)
        attributes = event.attributes
        if tuple in map(type, attributes.values()):
            for view in expansions(event, plan.attributes):
                with self._lock:
                    shown = self._view(view, plan)
                yield shown
            return
        values: dict[str, Any] = {**attributes, "id": event.id, "type": event.type, "source": event.source}
        values["time"] = event.time  # plans name only what is there
        with self._lock:
            shown = self._view(values, plan)
        yield shown

    def _view(self, values: dict[str, Value], plan: Plan) -> Shown:
        similar: list[Similar] = []
        changes = self._vocabulary.changes
        if plan.readings:
            values |= convert_values(values, plan.readings)
        for name, texts in plan.texts:
            value = values[name]
            if isinstance(value, str):
                found = texts.known.get(value) if texts.change == changes else None
                similar.append(found or self._similar(value, texts))
        return Shown(values, plan, similar)

    def _similar(self, value: str, texts: Texts) -> Similar:
        """The texts that a value is similar to, remembered until a subscription comes or goes."""
        if texts.change != self._vocabulary.changes or len(texts.known) >= REMEMBERED:
            texts.change = self._vocabulary.changes
            texts.known.clear()
        found = self._aliased.similar(texts.similar(value, self.semantics))
        if len(value) <= REMEMBERED_CHARS:
            texts.known[value] = found
        return found

    def _match_by_hand(self, event: Event) -> list[str]:
        held = self._by_hand.items()
        return [id for id, one in held if semantic_match(event, one.subscription, one.settings, self.semantics)]

    # -- ahead of events -----------------------------------------------------------------------------------------------
    #
    # Matching an event whose names and compared values are known asks no measure, and takes microseconds. A new name
    # takes milliseconds, and more with every name that subscriptions have. Whoever must not wait for that asks whether
    # events are prepared, and lets another thread go through the steps of ``preparing`` if they are not, while it
    # matches others. ``preparing`` and ``warming`` may run in any thread; all else belongs to one.

    def prepared(self, events: Sequence[Event]) -> bool:
        """Can these be matched without asking a measure?"""
        if not self._held:
            return True
        if self._by_hand and any(held.compares for held in self._by_hand.values()):
            return False
        return all(self._shapes.known(event) is not None and not any(self._unknown(event)) for event in events)

    def preparing(self, events: Sequence[Event]) -> Iterator[None]:
        """Ask measures all that matching these events will need, step by step. Any thread will do."""
        for event in events:
            if self._shapes.known(event) is None:
                yield from self._shapes.drafting(event, self._lock)
            for texts, value in self._unknown(event):
                texts.similar(value, self.semantics)
                yield
            for held in list(self._by_hand.values()):
                names = constraint_names(held.subscription.filter)
                yield from self._compare(names, attribute_names(event), held.settings)
                semantic_match(event, held.subscription, held.settings, self.semantics)
                yield

    def warming(self, subscription: Subscription) -> Iterator[None]:
        """Compare the names of a subscription that is about to be added with those of events that came before."""
        settings = self.settings(subscription)
        if settings is not None:
            with self._lock:
                known, names = self._shapes.names(WARM_NAMES), self._vocabulary.lacks(subscription.filter, settings)
            yield from self._compare(names, known, settings)

    def _unknown(self, event: Event) -> Iterator[tuple[Texts, str]]:
        """Values that are to be compared with texts, and have not been."""
        plan = self._shapes.known(event)
        if plan is None or not plan.texts:
            return
        values = dict(event.items())
        for name, texts in plan.texts:
            value = values.get(name)
            for one in value if isinstance(value, tuple) else (value,):
                if isinstance(one, str) and not texts.knows(one):
                    yield texts, one

    def _compare(self, names: Sequence[str], others: Sequence[str], settings: SemanticSettings) -> Iterator[None]:
        for start in range(0, len(names), STEP_NAMES):
            for at in range(0, len(others), STEP_NAMES):
                some = names[start : start + STEP_NAMES], others[at : at + STEP_NAMES]
                self.semantics.similarities(*some, settings)
                yield

    # -- reasons -------------------------------------------------------------------------------------------------------

    def explain(self, event: Event, subscription_id: str) -> Match | None:
        """Why an event matches a semantic subscription, by the oracle; None if it does not, or there is none."""
        held = self._held.get(subscription_id)
        return semantic_match(event, held.subscription, held.settings, self.semantics) if held is not None else None

    @property
    def renaming(self) -> bool:
        """Does any subscription want its own names on what it is sent?"""
        return bool(self._renaming)

    def renames(self, subscription_id: str) -> bool:
        """Does this one?"""
        return subscription_id in self._renaming

    @property
    def explaining(self) -> bool:
        """Does any subscription want to be told why an event matched?"""
        return bool(self._explaining)

    def explains(self, subscription_id: str) -> bool:
        """Does this one?"""
        return subscription_id in self._explaining

    def renamed(self, event: Event, subscription_id: str) -> Event:
        """The event with the attributes under the subscription's names, too, if it wants that."""
        if subscription_id not in self._renaming:
            return event
        return rename_event(event, self.alignment(event, subscription_id))

    def alignment(self, event: Event, subscription_id: str) -> Alignment:
        """Which attribute stands for which name of a semantic subscription, and how it is converted."""
        held = self._held[subscription_id]
        names = constraint_names(held.subscription.filter)
        return tell_units(event, self.semantics.align(names, attribute_names(event), held.settings))

    def statistics(self) -> dict[str, float]:
        """Sizes, and what matching has cost so far."""
        aliased = self._aliased.statistics()
        return {**self.exact.statistics(), **{f"semantic_{name}": value for name, value in aliased.items()}}


def _decide_later(event: Event, number: int, held: dict[str, Filter]) -> Undecided:
    """Before there are kernels all filters are undecided."""
    return Undecided(number, [[id] for id in held], list(held.values()), evaluation(event))


def _sift_plainly(event: Event, number: int, held: dict[str, Filter]) -> Sifting:
    yield
    return [], [_decide_later(event, number, held)]


def _gather(sifted: Sifted, numbers: Sequence[int], found: list[list[str]], undecided: list[Undecided]) -> None:
    for number, ids in zip(numbers, sifted.found, strict=True):
        found[number] += ids
    undecided += sifted.undecided


def _result(sifting: Sifting) -> tuple[list[str], list[Undecided]]:
    """All steps at once."""
    while True:
        try:
            next(sifting)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]  # what a generator returns has no type there
