"""One generated Python function with an ``if`` for each subscription: the interpreter's own best.

Attributes are read into local variables once. An absent one is NaN, which equals nothing and lies in no range; text
tests ask for a string first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import msgspec

from benchmarks.yardsticks.spelling import PYTHON, spell
from recado.filters.patterns import like_regex
from recado.model.event import Event
from recado.model.subscription import Subscription


class PythonFunction:
    name: ClassVar[str] = "python function"
    package: ClassVar[str] = "python"

    def build(self, subscriptions: Iterable[Subscription]) -> None:
        variables: dict[str, str] = {}
        dialect = msgspec.structs.replace(PYTHON, name=lambda name: variables.setdefault(name, f"v{len(variables)}"))
        tests = [
            f"    if {spell(subscription.whole_filter(), dialect)}: found({number})"
            for number, subscription in enumerate(subscriptions)
        ]
        reads = [f"    {variable} = get({name!r}, nan)" for name, variable in variables.items()]
        lines = ["def match(get):", "    numbers = []", "    found = numbers.append", *reads, *tests]
        scope: dict[str, Any] = {"nan": float("nan"), "likes": _Likes()}
        exec(compile("\n".join([*lines, "    return numbers"]), "<subscriptions>", "exec"), scope)
        self._match: Callable[[Callable[..., Any]], list[int]] = scope["match"]

    def match(self, event: Event) -> list[int]:
        return self._match(event.attributes.get)


class _Likes(dict[str, Callable[[str], object]]):
    """Wildcard patterns, compiled when they are first asked for and kept."""

    def __missing__(self, pattern: str) -> Callable[[str], object]:
        self[pattern] = like_regex(pattern, False).fullmatch
        return self[pattern]
