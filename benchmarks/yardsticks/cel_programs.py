"""``common-expression-language`` (CEL, in Rust): a compiled program for each subscription, run one after the other.

The event is converted into a CEL context once and shared by all programs, as its documentation advises.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any, ClassVar

from benchmarks.yardsticks.spelling import CEL, spell
from recado.model.event import Event
from recado.model.subscription import Subscription


class CelPrograms:
    name: ClassVar[str] = "cel"
    package: ClassVar[str] = "common-expression-language"

    def build(self, subscriptions: Iterable[Subscription]) -> None:
        self._cel: Any = import_module("cel")
        self._programs = [self._cel.compile(spell(subscription.whole_filter(), CEL)) for subscription in subscriptions]

    def match(self, event: Event) -> list[int]:
        context = self._cel.Context(variables=event.attributes)
        return [number for number, program in enumerate(self._programs) if program.execute(context)]
