"""The matcher of a service: which subscriptions an event matches, by the numbers that the desk gave them.

``make_matcher`` is the one place that chooses it. It is called in a thread while the service accepts events already,
because the machine code of the index takes longer to load than everything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.service.config import Config


class Matcher(Protocol):
    """Subscriptions come checked, as ``read_subscription`` leaves them; their ids are the desk's serials."""

    def __len__(self) -> int: ...

    def check(self, subscription: Subscription) -> None:
        """Refuse, with a SubscriptionError, what this matcher cannot match.

        For a subscription with ``semantic`` it may take seconds, so it is called in a thread.
        """
        ...

    def add(self, subscription: Subscription) -> None: ...

    def add_many(self, subscriptions: Iterable[Subscription]) -> int: ...

    def remove(self, id: str) -> bool: ...

    def match(self, event: Event) -> list[str]: ...

    def match_many(self, events: Sequence[Event]) -> list[list[str]]:
        """The same for each of many events."""
        ...

    @property
    def renaming(self) -> bool:
        """Does any subscription want its own names on what it is sent?"""
        ...

    def renamed_text(self, event: bytes, id: str) -> bytes:
        """The event as a subscription wants it."""
        ...


def make_matcher(config: Config) -> Matcher:
    """The matcher that the configuration asks for, ready to match."""
    from recado.service.matching_semantic import ServiceMatcher  # noqa: PLC0415  # it loads slowly: see above

    matcher = ServiceMatcher(config)
    matcher.warm()
    return matcher
