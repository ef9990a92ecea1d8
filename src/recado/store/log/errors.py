"""What can be wrong with a log, as one error and one value."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from recado.errors import RecadoError


class Damage(msgspec.Struct, frozen=True):
    """Positions ``[first, end)`` cannot be read. An empty range: bytes are damaged, but no known position is lost.

    ``expired`` tells positions that retention removed on purpose from those that something destroyed.
    """

    first: int
    end: int
    reason: str
    place: str
    expired: bool = False

    def __str__(self) -> str:
        return f"{self._what()}: {self.reason} ({self.place})"

    def _what(self) -> str:
        if self.end <= self.first:
            return f"damage at position {self.first:,}"
        if self.end == self.first + 1:
            return f"position {self.first:,} cannot be read"
        return f"positions {self.first:,} to {self.end - 1:,} cannot be read"


OnDamage = Callable[[Damage], None]


class LogError(RecadoError):
    """The log cannot be opened, read or written as asked; ``damage`` says which positions are concerned, if any."""

    def __init__(self, message: str, damage: Damage | None = None) -> None:
        super().__init__(message)
        self.damage = damage


class BusyError(LogError):
    """Something passing: there is another writer, a lock is held for too long, a queue is full. Try again later."""


def refuse(damage: Damage) -> None:
    """The strict way to meet damage: an error that names the positions."""
    hint = "" if damage.expired else "; pass on_damage to read the rest"
    raise LogError(f"{damage}{hint}", damage)
