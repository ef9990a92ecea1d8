"""Fewer subscriptions to forward: a broker drops what is covered and merges what can be merged.

Run: ``python examples/fewer_subscriptions.py``
"""

from __future__ import annotations

from recado.filters import expression
from recado.filters.covering import covers, merge
from recado.filters.normal import filter_key
from recado.model.filter import Filter

TEXTS = [
    "Price < 25",
    "Price < 20",
    'Price < 20 and Stock == "PETR4"',
    "Price between 25 and 30",
    "Price < 100 and not (Price >= 25)",
    "Volume > 1_000",
]


def main() -> None:
    filters = [expression.parse(text) for text in TEXTS]
    print("equal:   ", [text for text in TEXTS if key(text) == key("Price < 25")])
    kept: list[Filter] = []
    for filter in filters:
        if any(covers(other, filter) for other in kept):
            print("covered: ", expression.format_expression(filter))
            continue
        kept = [other for other in kept if not covers(filter, other)]
        kept.append(filter)
    merged = merge(kept[0], kept[1])
    if merged is not None:
        print("merged:  ", expression.format_expression(merged))
        kept[:2] = [merged]
    print("forwarded:", [expression.format_expression(filter) for filter in kept])


def key(text: str) -> str:
    return filter_key(expression.parse(text))


if __name__ == "__main__":
    main()
