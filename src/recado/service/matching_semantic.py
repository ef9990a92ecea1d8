"""The service's matcher: by content, and for subscriptions that want it by meaning (the semantics document).

Knowledge of words comes from what is installed, from the configured file of overrides and from what people decided
about uncertain pairs; a cache of similarities that ``recado pipeline align`` made saves the first events the work. All
of it is loaded with the first semantic subscription; what cannot be loaded refuses that subscription with a sentence
that says why, and exact matching goes on. A stored subscription that has become unusable so is left out at the start
and told in the log; it comes back when the service starts with what it needs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from recado.errors import RecadoError
from recado.matching.batch import match_events
from recado.matching.index import Index
from recado.model.codec import read_event, write_flat
from recado.model.event import Event
from recado.model.filter import Compare
from recado.model.subscription import Subscription
from recado.semantics.cache import SimilarityCache
from recado.semantics.engine import Semantics
from recado.semantics.matcher import BATCH_FROM, SemanticMatcher
from recado.semantics.overrides import Overrides
from recado.semantics.review import ReviewList
from recado.semantics.settings import SemanticSettings, read_settings
from recado.service.config import Config, ConfigError
from recado.store.log.where import TRUSTED

_EVENT = Event("1", attributes={"x": 1})
_log = logging.getLogger("recado.service")


class ServiceMatcher(SemanticMatcher):
    """Subscriptions come checked."""

    def __init__(self, config: Config) -> None:
        overrides = Overrides.load(config.semantics.overrides) if config.semantics.overrides else None
        super().__init__(
            Semantics(overrides=overrides, decided=ReviewList.load().decided(), cache=SimilarityCache()),
            default_settings(config),
        )
        self._cache_file = config.semantics.cache
        self._always = config.semantics.always

    @staticmethod
    def warm() -> None:
        """Load what matching needs, in whichever thread; else the first event would wait for it."""
        scratch = Index()
        scratch.add(Subscription("1", Compare("x", "==", 1)))
        scratch.match(_EVENT)
        match_events(scratch, [_EVENT] * BATCH_FROM).ids(scratch)
        scratch.remove("1")

    def check(self, subscription: Subscription) -> None:
        """Load what the subscription needs. It may take seconds, the first time; any thread will do."""
        wanted = self._understood(subscription)
        super().check(wanted)
        if wanted.semantic is not None and self._cache_file:
            file, self._cache_file = self._cache_file, ""
            self._fill_cache(Path(file))

    def _fill_cache(self, file: Path) -> None:
        knowing = self.semantics
        count = knowing.cache.load(file, knowing.digest) if knowing.cache is not None else 0
        if count:
            _log.info("%s: %d similarities", file, count)
        else:
            _log.warning("%s: no similarities that were made by the knowledge this service has; it goes on", file)

    def add(self, subscription: Subscription, checked: bool = True) -> None:
        super().add(self._understood(subscription), checked)

    def add_many(self, subscriptions: Iterable[Subscription], checked: bool = True) -> int:
        return super().add_many(self._usable(subscriptions), checked)

    def _usable(self, subscriptions: Iterable[Subscription]) -> Iterator[Subscription]:
        for subscription in subscriptions:
            try:
                self.check(subscription)
            except RecadoError as error:
                _log.error("a stored subscription gets nothing while this lasts: %s", error)
            else:
                yield self._understood(subscription)

    def _understood(self, subscription: Subscription) -> Subscription:
        """With ``semantic`` where the service understands all names by meaning."""
        if self._always and subscription.semantic is None:
            return msgspec.structs.replace(subscription, semantic={})
        return subscription

    def renamed_text(self, event: bytes, id: str) -> bytes:
        """The event with the names of a subscription, if it wants that."""
        if not self.renames(id):
            return event
        return write_flat(self.renamed(read_event(event, limits=TRUSTED), id))


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
