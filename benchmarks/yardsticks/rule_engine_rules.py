"""``rule-engine``: a rule for each subscription, asked one after the other."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any, ClassVar

from benchmarks.yardsticks.spelling import RULE_ENGINE, spell
from recado.model.event import Event
from recado.model.subscription import Subscription


class RuleEngine:
    name: ClassVar[str] = "rule-engine"
    package: ClassVar[str] = "rule-engine"

    def build(self, subscriptions: Iterable[Subscription]) -> None:
        rule: Any = import_module("rule_engine").Rule
        self._rules = [rule(spell(subscription.whole_filter(), RULE_ENGINE)) for subscription in subscriptions]

    def match(self, event: Event) -> list[int]:
        attributes = event.attributes
        return [number for number, rule in enumerate(self._rules) if rule.matches(attributes)]
