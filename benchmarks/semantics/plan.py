"""How much of everything: the full plan and the quick one."""

from __future__ import annotations

import msgspec


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """``seconds`` for each rate; ``plain`` events for the slow side; ``new_shapes`` to take the middle one of."""

    subscribers: tuple[int, ...]
    subscriptions: tuple[int, ...]
    seconds: float
    events: int
    plain: int
    new_shapes: int


def full_plan() -> Plan:
    return Plan(
        subscribers=(0, 1, 2, 3, 6, 10, 20, 50, 200),
        subscriptions=(200, 10_000, 100_000),
        seconds=3.0,
        events=4_096,
        plain=20,
        new_shapes=21,
    )


def quick_plan() -> Plan:
    return Plan(subscribers=(0, 10, 50), subscriptions=(200, 10_000), seconds=0.3, events=512, plain=2, new_shapes=3)
