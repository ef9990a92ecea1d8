"""One case through one way, against the evaluator; what disagrees is made small and printed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pytest

from matching.exact.shrink import Shrinker, as_test
from matching.exact.vectors import Truths, Vectors
from matching.exact.ways import TYPED, WAYS, Way
from recado.filters import expression
from recado.matching import store
from recado.matching.kernels import matrix
from recado.model.codec import read_event
from recado.model.event import Event
from recado.model.subscription import Subscription

SMALL = 2


@contextmanager
def long_lists(size: int) -> Iterator[None]:
    """Lists of so many entries count as long, are split, get a matrix: what needs thousands of filters needs a few."""
    sizes = {"LEAST": size, "COLUMN_GAIN": 1 << 40, "MOST_LEFT": 1, "FEW_LEFT": 2, "KILOBYTE": 1 << 40}
    before = store.LONG_LIST, {name: getattr(matrix, name) for name in sizes}
    store.LONG_LIST = size
    vars(matrix).update(sizes)
    try:
        yield
    finally:
        store.LONG_LIST = before[0]
        vars(matrix).update(before[1])


def expected(subscriptions: Sequence[Subscription], events: Sequence[Event]) -> Truths:
    return Vectors(events).matrix([subscription.whole_filter() for subscription in subscriptions])


def compare(name: str, way: Way, subscriptions: Sequence[Subscription], events: Sequence[Event], right: Truths) -> None:
    """Fail with the smallest case that can be found, ready to be pasted as a test."""
    try:
        found = way(subscriptions, events)
        missing, extra = int(np.count_nonzero(right & ~found)), int(np.count_nonzero(found & ~right))
        why = ""
    except Exception as error:  # noqa: BLE001  # whatever it is, a smaller case shows it better
        missing = extra = 0
        why = f"{type(error).__name__}: {error}\n"
    if missing or extra or why:
        pytest.fail(why + smallest(name, way, subscriptions, events, missing, extra), pytrace=False)


def smallest(
    name: str, way: Way, subscriptions: Sequence[Subscription], events: Sequence[Event], missing: int, extra: int
) -> str:
    """The case as a test; with short lists counting as long if it fails so as well, since it gets smaller then."""

    def fails(some: Sequence[Subscription], them: Sequence[Event]) -> bool:
        return not np.array_equal(way(some, them), expected(some, them))

    for size in (SMALL, store.LONG_LIST):
        with long_lists(size):
            try:
                case = Shrinker(fails).shrink(subscriptions, events)
            except AssertionError:
                continue
        text = as_test(name, case, missing, extra)
        return text if size == store.LONG_LIST else text[:-1] + f"    long_list={size},\n)"
    return f"{name}: {missing:,} missing, {extra:,} too many, and not again when tried a second time"


def check(
    way: str, subscriptions: Sequence[tuple[str, ...]], events: Sequence[bytes], long_list: int | None = None
) -> None:
    """A case as it is printed."""
    some = [Subscription(id, expression.parse(text), *rest) for id, text, *rest in subscriptions]
    them = [read_event(text) for text in events]
    with long_lists(long_list or store.LONG_LIST):
        found = (WAYS | TYPED)[way](some, them)
    assert found.tolist() == expected(some, them).tolist()
