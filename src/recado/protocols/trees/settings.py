"""What can be chosen about the tree protocol, and its limits.

The defaults are the corrected protocol: content filtering, grafting, suppression of repeats. The other values exist to
reproduce the tree document's variants (its sections 2.4 and 2.5) or are its future work (2.7, 7.2).
"""

from __future__ import annotations

from typing import Literal

import msgspec

from recado.errors import RecadoError


class SettingsError(RecadoError):
    """A setting that makes no sense."""


class TreeSettings(msgspec.Struct, frozen=True):
    """The settings of one node; usually the same in the whole overlay, and ``mpp`` and ``forwarding`` have to be."""

    filtering: Literal["content", "type"] = "content"
    """What relays look at. The application gets only what its filter asks for, in both cases."""
    mpp: Literal["graft", "aggregate", "stream"] = "graft"
    forwarding: Literal["seen", "subscriptions"] = "seen"
    """Drop repeats by their id, or let every notification say which subscriptions it serves on a link."""
    echo: bool = True
    """Does a publisher that subscribes to its own type hear its own events?"""
    share: bool = False
    """Let a subscription use the tree of another one whose filter covers it."""
    causal: bool = False
    causal_wait_seconds: float = 10.0
    """How long a notification waits for an earlier one that does not come."""
    buffer: int = 0
    """How many of its latest events a publisher keeps for subscriptions that come later."""
    buffer_seconds: float = 60.0
    repair_seconds: float = 1.0
    """How long a root waits after it heard of damage, so that one rebuild serves for all of it."""
    patience: float = 8.0
    """A publisher that lost a subscription waits this many times longer for the root's rebuild before it searches."""
    settle_seconds: float = 30.0
    """The longest time that a flood is expected to take; younger links are not trusted to be in one component."""
    max_rows: int = 100_000
    max_subscriptions: int = 10_000
    max_operations: int = 100_000
    max_seen: int = 65_536
    max_kept: int = 1_024
    """Finished searches of new publishers whose branches may still be needed for grafting, and floods remembered."""

    def __post_init__(self) -> None:
        for name in ("filtering", "mpp", "forwarding"):
            _check_choice(name, getattr(self, name))
        for name in ("causal_wait_seconds", "repair_seconds", "settle_seconds", "buffer_seconds", "patience"):
            if not getattr(self, name) > 0:
                raise SettingsError(f"{name} is {getattr(self, name)}; it has to be more than 0")
        for name in ("max_rows", "max_subscriptions", "max_operations", "max_seen", "max_kept"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} is {getattr(self, name)}; it has to be at least 1")
        if self.buffer < 0:
            raise SettingsError(f"buffer is {self.buffer}; it is a number of events, 0 for none")


_CHOICES = {
    "filtering": ("content", "type"),
    "mpp": ("graft", "aggregate", "stream"),
    "forwarding": ("seen", "subscriptions"),
}


def _check_choice(name: str, value: str) -> None:
    if value not in _CHOICES[name]:
        raise SettingsError(f"{name} is {value!r}; it is one of {', '.join(_CHOICES[name])}")
