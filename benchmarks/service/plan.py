"""How much of everything: the full plan and the quick one."""

from __future__ import annotations

import msgspec

PARTS = ("publishing", "filtered", "away", "handover", "restart", "attack")


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Each broker is started afresh for each row; ``patience_seconds`` is how long a row may publish at most."""

    parts: tuple[str, ...] = PARTS
    publishers: tuple[int, ...] = (1, 16)
    in_flight: int = 6
    publish_seconds: float
    publish_rounds: int = 1
    """Of which the one with the most acknowledgements counts: the others were disturbed."""
    connections: int = 100
    interests: int = 10_000
    filtered_seconds: float
    away: tuple[int, ...]
    patience_seconds: float
    moves: int
    events_per_second: float = 1_000
    move_seconds: float = 0.2
    stored: int
    """Notifications, and subscriptions, that are there when the service is killed and started again."""
    attack_filters: int = 1_800
    attack_seconds: float


def full_plan(parts: tuple[str, ...] = ()) -> Plan:
    return Plan(
        parts=parts or PARTS,
        publish_seconds=10,
        publish_rounds=3,
        filtered_seconds=10,
        away=(5_000, 100_000),
        patience_seconds=90,
        moves=1_000,
        stored=100_000,
        attack_seconds=30,
    )


def quick_plan(parts: tuple[str, ...] = ()) -> Plan:
    """Shorter runs, one size of absence, fewer moves."""
    return Plan(
        parts=parts or PARTS,
        publish_seconds=3,
        filtered_seconds=3,
        away=(5_000,),
        patience_seconds=10,
        moves=50,
        stored=10_000,
        attack_seconds=10,
    )
