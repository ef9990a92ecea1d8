"""The matcher of a service: which subscriptions an event matches, by the numbers that the desk gave them.

``make_matcher`` is the one place that chooses it. ``recado.service.matching_kernels`` says when it gets the kernels of
the index.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from recado.matching.undecided import Sifted
from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.service.config import Config

if TYPE_CHECKING:
    from recado.matching.staged import StagedIndex

Apart = Callable[[Sequence[bytes]], Iterator[tuple[int, bytes] | None]]
"""From texts of events to the numbers of those that match and what is sent of them; None is a step without result."""


class Told(NamedTuple):
    """The text of an event, and why it matched; nothing if its owner does not ask for that."""

    event: bytes
    why: bytes = b""


class Matcher(Protocol):
    """Subscriptions come checked, as ``read_subscription`` leaves them; their ids are the desk's serials."""

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

    def remove(self, id: str) -> bool: ...

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

    def is_exact(self, id: str) -> bool:
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

    def apart(self, subscription: Subscription) -> Apart:
        """What a subscription would be sent; in a thread, which need not be that of this matcher."""
        ...

    def save_cache(self) -> None:
        """Keep over restarts what took time to find out; in a thread."""
        ...

    @property
    def telling(self) -> bool:
        """Does any subscription want more than the event as it came?"""
        ...

    def told(self, text: bytes, id: str) -> Told:
        """The event as a subscription wants it."""
        ...


def make_matcher(config: Config) -> Matcher:
    """The matcher that the configuration asks for, ready to match, without the kernels at first."""
    from recado.service.matching_semantic import ServiceMatcher  # noqa: PLC0415  # it is one of several

    return ServiceMatcher(config)
