"""Every limit of the core, in one place.

A limit is there so that one bad input costs bounded time and memory and hurts nobody else. ``LIMITS`` holds the
defaults; functions that check take a ``limits`` argument, so a caller can be stricter or more generous.
"""

from __future__ import annotations

import msgspec


class Limits(msgspec.Struct, frozen=True):
    """How large, deep or many things may be. Functions that check take one, so a caller can be stricter or laxer."""

    # events
    event_bytes: int = 1_048_576
    batch_bytes: int = 67_108_864
    attributes: int = 512
    name_chars: int = 256
    string_chars: int = 65_536
    nesting: int = 16
    array_elements: int = 256
    array_combinations: int = 256
    # filters
    filter_chars: int = 16_384
    filter_depth: int = 32
    filter_predicates: int = 256
    set_values: int = 1_024
    pattern_chars: int = 1_024
    regex_bytes: int = 262_144
    filter_cost: int = 20_000
    # subscriptions
    subscription_bytes: int = 65_536
    id_chars: int = 256
    owner_chars: int = 1_024
    constraints: int = 32


LIMITS = Limits()
"""The defaults."""
