"""The matcher of a service: which subscriptions an event matches, by the numbers that the broker gave them.

``make_matcher`` is the one place that chooses it. ``recado.server.prefetch`` says when it gets the kernels of
the index.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from recado.errors import RecadoError, SubscriptionError
from recado.matching.staged import StagedIndex
from recado.matching.undecided import Sifted
from recado.model.codec import read_event, write_flat
from recado.model.event import Event
from recado.model.filter import Compare
from recado.model.subscription import Subscription
from recado.semantics.alignment import rename_event
from recado.semantics.cache import SimilarityCache
from recado.semantics.engine import Semantics
from recado.semantics.frequencies import Frequencies
from recado.semantics.match import attribute_names, callbacks, tell_callbacks
from recado.semantics.matcher import BATCH_FROM, SemanticMatcher
from recado.semantics.overrides import Given, Open, Overrides, ReviewList
from recado.semantics.settings import SemanticSettings, read_settings
from recado.server.config import Config, ConfigError
from recado.store.log.segments import TRUSTED

ReplayMatcher = Callable[[Sequence[bytes]], Iterator[tuple[int, bytes] | None]]
"""From texts of events to the numbers of those that match and what is sent of them; None is a step without result."""


class RenderedEvent(NamedTuple):
    """The text of an event, and why it matched; nothing if its owner does not ask for that."""

    event: bytes
    why: bytes = b""


class Matcher(Protocol):
    """Subscriptions come checked, as ``read_subscription`` leaves them; their ids are the broker's serials."""

    def __len__(self) -> int: ...

    @property
    def is_compiled(self) -> bool:
        """Does it use the kernels of the index?"""
        ...

    def load_kernels(self) -> None:
        """All of ``compile`` that takes long; in a thread."""
        ...

    def compile(self) -> None:
        """Use the kernels from here on."""
        ...

    def check(self, subscription: Subscription) -> None:
        """Refuse, with a SubscriptionError, what this matcher cannot match.

        For a subscription with ``semantic`` it may take seconds, so it is called in a thread.
        """
        ...

    def checking(self, subscription: Subscription) -> Iterator[None]:
        """The same in steps, and what else is better done before the subscription is added."""
        ...

    def add(self, subscription: Subscription) -> None: ...

    def add_many(self, subscriptions: Iterable[Subscription]) -> int: ...

    def remove(self, number: str) -> bool: ...

    def match(self, event: Event) -> list[str]: ...

    def match_many(self, events: Sequence[Event]) -> list[list[str]]:
        """The same for each of many events."""
        ...

    def sifting(self, events: Sequence[Event], texts: Sequence[bytes] | None = None) -> Generator[None, None, Sifted]:
        """The same in steps that each take a short while, with what takes long left as work to do.

        ``texts`` are those of the events, if they are at hand.
        """
        ...

    def prepared(self, events: Sequence[Event]) -> bool:
        """Is all known that matching these events takes? Else ``preparing`` finds it out."""
        ...

    def preparing(self, events: Sequence[Event]) -> Iterator[None]:
        """In steps, in a thread, while other events are matched."""
        ...

    def is_exact(self, number: str) -> bool:
        """Is there such a subscription, and is it matched by content alone?"""
        ...

    def building_anew(self) -> None:
        """From now on changes are remembered, for the index that is about to be built."""
        ...

    def build(self, subscriptions: Iterable[Subscription]) -> StagedIndex:
        """A new index of those that are matched by content alone; in a thread."""
        ...

    def take(self, index: StagedIndex | None) -> None:
        """Use the new index, with the changes that came meanwhile; None if there is none after all."""
        ...

    @property
    def trouble(self) -> str:
        """What is wrong with stored subscriptions, in a sentence; else nothing."""
        ...

    def usable_again(self) -> list[Subscription]:
        """Of the stored subscriptions that could not be used those that can be; in a thread."""
        ...

    def put_back(self, subscriptions: Iterable[Subscription]) -> None:
        """Use them."""
        ...

    def replay_matcher(self, subscription: Subscription) -> ReplayMatcher:
        """What a subscription would be sent; in a thread, which need not be that of this matcher."""
        ...

    def save_cache(self) -> None:
        """Keep over restarts what took time to find out; in a thread."""
        ...

    def tell(self, text: bytes, matched: Iterable[tuple[str, str]]) -> None:
        """Tell call-backs that an event matched subscriptions, given by number and id, as far as they are semantic."""
        ...

    @property
    def renders_events(self) -> bool:
        """Does any subscription want more than the event as it came?"""
        ...

    def render(self, text: bytes, number: str) -> RenderedEvent:
        """The event as a subscription wants it."""
        ...


def make_matcher(config: Config) -> Matcher:
    """The matcher that the configuration asks for, ready to match, without the kernels at first."""
    return ServiceMatcher(config)


# --- What the configuration says of meaning, read before the service begins: a wrong file or name is told at once


class Understanding(NamedTuple):
    """What subscriptions leave open, similarities that people gave, and how frequent words are."""

    default: SemanticSettings
    overrides: Overrides | None
    frequencies: Frequencies | None


def read_understanding(config: Config) -> Understanding:
    """A ConfigError names the member that is wrong."""
    wanted = config.semantics
    default = default_settings(config)
    try:
        overrides = Overrides.load(wanted.overrides) if wanted.overrides else None
    except RecadoError as error:
        raise ConfigError(f"$.semantics.overrides: {error}") from None
    try:
        frequencies = Frequencies.load(wanted.frequencies) if wanted.frequencies else None
    except RecadoError as error:
        raise ConfigError(f"$.semantics.frequencies: {error}") from None
    return Understanding(default, overrides, frequencies)


def default_settings(config: Config) -> SemanticSettings:
    """What a subscription's ``semantic`` leaves open; a threshold of 0 is the measure's own."""
    members: dict[str, Any] = {"measure": config.semantics.measure, "unmatched": config.semantics.unmatched}
    if config.semantics.threshold:
        members["threshold"] = config.semantics.threshold
    try:
        settings = read_settings(members, place="$.semantics")
    except RecadoError as error:
        raise ConfigError(str(error)) from None
    assert settings is not None  # there are members
    return settings


# --- The service's matcher: by content, and for subscriptions that want it by meaning (the semantics document) -------
#
# Knowledge of words comes from what is installed, from the configured file of overrides and from what people decided
# about uncertain pairs. All of it is loaded with the first semantic subscription; what cannot be loaded refuses that
# subscription with a sentence that says why, and exact matching goes on. A stored subscription that has become unusable
# so is left out at the start, told in the log and in the status, and put back when what it needs is there again.
#
# Similarities that were worked out are kept in the data folder over restarts, and a file that ``recado pipeline align``
# made is read, too. Neither changes a result, only the time it takes; a file that is damaged, or was made by other
# knowledge, is not used.


CACHE_FILE = "similarities"
CACHE_BYTES = 64 * 2**20
_EVENT = Event("1", attributes={"x": 1})
_log = logging.getLogger("recado.server")


class ServiceMatcher(SemanticMatcher):
    """Subscriptions come checked."""

    def __init__(self, config: Config) -> None:
        default, overrides, frequencies = read_understanding(config)
        decided, self._flaw = _read_decided()
        cache = SimilarityCache()
        semantics = Semantics(overrides=overrides, frequencies=frequencies, decided=decided, cache=cache)
        super().__init__(semantics, default, plain=True, tells=False)  # the dispatcher does, once, with their ids
        self._uncertain = ReviewList() if config.semantics.note else None
        self._always = config.semantics.always
        self._cache_file = Path(config.data) / CACHE_FILE
        self._unread = [Path(config.semantics.cache)] if config.semantics.cache else []
        self._unread += [self._cache_file] if self._cache_file.exists() else []
        self._saved = 0
        self._left_out: dict[str, Subscription] = {}
        self._reasons = ""
        self._meanwhile: list[str | Subscription] | None = None

    @property
    def is_compiled(self) -> bool:
        return self.exact.is_compiled

    def load_kernels(self) -> None:
        """Load the kernels and put the exact subscriptions into the index, in whichever thread."""
        from recado.matching.batch import match_events  # noqa: PLC0415  # they load numba
        from recado.matching.index import Index  # noqa: PLC0415
        from recado.matching.undecided import sift_texts  # noqa: PLC0415

        scratch = Index()
        scratch.add(Subscription("1", Compare("x", "==", 1)))
        scratch.match(_EVENT)
        match_events(scratch, [_EVENT] * BATCH_FROM).ids(scratch)
        sift_texts(scratch, [write_flat(_EVENT)] * BATCH_FROM, [_EVENT] * BATCH_FROM, range(BATCH_FROM))
        scratch.remove("1")
        self.exact.compile()

    # -- subscriptions -------------------------------------------------------------------------------------------------

    def check(self, subscription: Subscription) -> None:
        """Load what the subscription needs. It may take seconds, the first time; any thread will do."""
        wanted = self._understand(subscription)
        if wanted.semantic is not None and self._flaw:
            raise SubscriptionError(f"$.semantic: cannot be used here: {self._flaw}")
        super().check(wanted)
        if wanted.semantic is not None:
            self._read_caches()

    def checking(self, subscription: Subscription) -> Iterator[None]:
        """The same, and compare new names with those of events, so that the next events need not wait for it."""
        self.check(subscription)
        yield
        yield from self.warming(self._understand(subscription))

    def add(self, subscription: Subscription, checked: bool = True) -> None:
        self._left_out.pop(subscription.id, None)
        super().add(self._understand(subscription), checked)
        if self._meanwhile is not None:
            self._meanwhile.append(subscription)

    def add_many(self, subscriptions: Iterable[Subscription], checked: bool = True) -> int:
        count = super().add_many(self._usable(subscriptions), checked)
        if self.trouble:
            _log.error("%s", self.trouble)
        return count

    def remove(self, number: str) -> bool:
        if self._meanwhile is not None:
            self._meanwhile.append(number)
        return super().remove(number) or self._left_out.pop(number, None) is not None

    # -- a new index ---------------------------------------------------------------------------------------------------

    def is_exact(self, number: str) -> bool:
        return number in self.exact

    def building_anew(self) -> None:
        self._meanwhile = []

    def build(self, subscriptions: Iterable[Subscription]) -> StagedIndex:
        fresh = StagedIndex()
        fresh.add_many((one for one in subscriptions if self.is_exact(one.id)), checked=True)
        return fresh

    def take(self, index: StagedIndex | None) -> None:
        changes, self._meanwhile = self._meanwhile or [], None
        if index is None:
            return
        for change in changes:
            index.remove(change if isinstance(change, str) else change.id)
            if isinstance(change, Subscription) and self._understand(change).semantic is None:
                index.add(change, checked=True)
        self.exact = index

    # -- subscriptions that cannot be used -----------------------------------------------------------------------------

    @property
    def trouble(self) -> str:
        """How many stored subscriptions are left out, and why."""
        count = len(self._left_out)
        return f"{count:,} stored subscriptions by meaning get nothing for now: {self._reasons}" if count else ""

    def _usable(self, subscriptions: Iterable[Subscription]) -> Iterator[Subscription]:
        reasons: dict[str, None] = {}
        for subscription, error in self._try(subscriptions):
            if error:
                self._left_out[subscription.id] = subscription
                reasons[error] = None
            else:
                yield subscription
        self._reasons = "; ".join(reasons)

    def _try(self, subscriptions: Iterable[Subscription]) -> Iterator[tuple[Subscription, str]]:
        """Each, and what is wrong; settings that failed are not tried again for every subscription that has them."""
        failed: dict[bytes, str] = {}
        for subscription in map(self._understand, subscriptions):
            kind = msgspec.json.encode(subscription.semantic, order="deterministic")
            if kind not in failed:
                try:
                    self.check(subscription)
                except RecadoError as error:
                    failed[kind] = str(error)
            yield subscription, failed.get(kind, "")

    def usable_again(self) -> list[Subscription]:
        """Of those that were left out the ones that can be put back now. Any thread will do."""
        return [subscription for subscription, error in self._try(list(self._left_out.values())) if not error]

    def put_back(self, subscriptions: Iterable[Subscription]) -> None:
        """Add those that are still wanted."""
        back = [subscription for subscription in subscriptions if subscription.id in self._left_out]
        for subscription in back:
            self.add(subscription)
        if back:
            _log.info("%d stored subscriptions by meaning can be used again", len(back))

    def _understand(self, subscription: Subscription) -> Subscription:
        """With ``semantic`` where the service understands all names by meaning."""
        if self._always and subscription.semantic is None:
            return msgspec.structs.replace(subscription, semantic={})
        return subscription

    # -- what people should look at ------------------------------------------------------------------------------------

    def preparing(self, events: Sequence[Event]) -> Iterator[None]:
        for event in events:
            is_new = self._uncertain is not None and not self.knows_shape(event)
            yield from super().preparing([event])
            if is_new:
                yield from self._noting(attribute_names(event))

    def _noting(self, attributes: Sequence[str]) -> Iterator[None]:
        """Remember the pairs of names that a slightly different threshold would have judged otherwise."""
        assert self._uncertain is not None
        for term in self.terms():
            alignment = self.semantics.align(term.names, attributes, term.scope.settings)
            self._uncertain.note(
                Open(pair.constraint, pair.nearest, pair.similarity, alignment.measure, alignment.threshold)
                for pair in alignment.uncertain(term.scope.settings.margin)
                if pair.nearest is not None
            )
            yield

    def _save_uncertain(self) -> None:
        if self._uncertain is not None and (found := self._uncertain.open):
            listed = ReviewList.load()  # where people may have decided meanwhile
            listed.note(found)
            listed.save()
            self._uncertain = ReviewList()

    # -- similarities that are kept ------------------------------------------------------------------------------------

    def _read_caches(self) -> None:
        cache = self.semantics.cache
        assert cache is not None
        while self._unread:
            file = self._unread.pop()
            try:
                count = cache.load(file, self.semantics.digest)
            except RecadoError:  # without a lexicon nobody can tell whose knowledge it is
                count = 0
            if count:
                _log.info("%s: %d similarities", file, count)
            else:
                _log.warning("%s: is missing, damaged or made by other knowledge of words, and not used", file)

    def save_cache(self) -> None:
        """Keep the similarities and uncertain pairs that have come since, if any. Any thread will do."""
        cache = self.semantics.cache
        assert cache is not None
        if not self.has_loaded or cache.misses == self._saved:
            return
        saved = cache.misses
        try:
            self._save_uncertain()
            cache.save(self._cache_file, self.semantics.digest, CACHE_BYTES)
        except RecadoError as error:
            _log.error("similarities are not kept, and will be worked out again: %s", error)
        else:
            self._saved = saved

    # -- what is sent --------------------------------------------------------------------------------------------------

    @property
    def renders_events(self) -> bool:
        return self.renaming or self.explaining

    def tell(self, text: bytes, matched: Iterable[tuple[str, str]]) -> None:
        if not self.semantic or not callbacks:
            return
        ids = [id for number, id in matched if self.is_semantic(number)]
        event = read_event(text, limits=TRUSTED) if ids else None
        for id in ids:
            assert event is not None
            tell_callbacks(event, id)

    def render(self, text: bytes, number: str) -> RenderedEvent:
        """The event with the names of a subscription, and why it matched, if it wants that."""
        renames, explains = self.renames(number), self.explains(number)
        if not renames and not explains:
            return RenderedEvent(text)
        event = read_event(text, limits=TRUSTED)
        alignment = self.alignment(event, number)
        sent = write_flat(rename_event(event, alignment)) if renames else text
        return RenderedEvent(sent, msgspec.json.encode(alignment) if explains else b"")

    def replay_matcher(self, subscription: Subscription) -> ReplayMatcher:
        """What a subscription would be sent of events, by the same knowledge, whatever else is subscribed to."""
        alone = SemanticMatcher(self.semantics, self.default, plain=not self.is_compiled, tells=False)
        alone.add(self._understand(subscription), checked=True)

        def found(texts: Sequence[bytes]) -> Iterator[tuple[int, bytes] | None]:
            for number, text in enumerate(texts):
                event = read_event(text, limits=TRUSTED)
                for _ in alone.preparing([event]):
                    yield None
                if alone.match(event):
                    yield number, write_flat(alone.renamed(event, subscription.id)) if alone.renaming else text

        return found


def _read_decided() -> tuple[list[Given], str]:
    """What people decided about pairs; if that cannot be read, why."""
    try:
        return ReviewList.load().decided(), ""
    except RecadoError as error:
        return [], f"{error}, and start the service again"
