"""What an event shows to the index over aliases: its values, and the aliases by which they go."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from recado.model.values import Value
from recado.semantics.matcher_shape import Plan


class Similar(NamedTuple):
    """Aliases of texts that a value is similar to, and their numbers in the index."""

    aliases: list[str]
    numbers: list[int]


class Shown(Mapping[str, Value]):
    """One single-valued view of an event: its values, and by which aliases they go; those in ``texts`` go for true."""

    __slots__ = ("_view", "plan", "texts", "values_of")

    def __init__(self, values: Mapping[str, Value], plan: Plan, texts: Sequence[Similar] = ()) -> None:
        self.values_of, self.plan, self.texts = values, plan, texts
        self._view: dict[str, Value] | None = None

    @property
    def view(self) -> dict[str, Value]:
        """As the evaluator of filters reads it, which is rarely asked."""
        if self._view is None:
            self._view = {alias: self.values_of[name] for alias, name in self.plan.pairs}
            for similar in self.texts:
                self._view |= dict.fromkeys(similar.aliases, True)
        return self._view

    def __getitem__(self, alias: str) -> Value:
        return self.view[alias]

    def __iter__(self) -> Iterator[str]:
        return iter(self.view)

    def __len__(self) -> int:
        return len(self.view)
