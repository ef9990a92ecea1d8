"""Random filters, events and changes of a size that makes the index optimise itself; a seed gives the same again."""

from __future__ import annotations

import random

from recado.matching.index import Index
from recado.matching.naive import NaiveMatcher
from recado.model.event import Event
from recado.model.filter import And, Between, Compare, Exists, Filter, In, Not, Or, Regex, Text
from recado.model.subscription import Subscription


def random_filter(rng: random.Random) -> Filter:
    x, y, n = rng.randrange(200), rng.randrange(50), rng.randrange(400)
    return rng.choice(
        [
            And((Compare("x", "==", x), Between("p", n, n + rng.randrange(60)))),
            And((Between("p", n, n + 10), Between("q", n - 5, n + 20))),
            And((Compare("y", "==", f"v{y}"), Compare("p", ">", n), Compare("p", "<", n + 40))),
            And((Compare("p", ">=", n), Not(Compare("y", "==", f"v{y}")))),
            And((Text("y", "prefix", f"v{y}"), Compare("x", "<", x))),
            And((In("x", (x, x + 1, x + 2)), Compare("q", "<=", n))),
            Or((Compare("x", "==", x), And((Compare("q", "==", n), Exists("y"))))),
            Not(Or((Compare("x", "<", 190), Compare("x", "==", x)))),
            And((Regex("y", f"v{y}.*"), Compare("x", "!=", x))),
            Text("z", "contains", f"{n}"),
        ]
    )


def random_event(rng: random.Random) -> Event:
    attributes = {
        "x": rng.randrange(200),
        "y": f"v{rng.randrange(50)}",
        "p": rng.randrange(420),
        "q": rng.randrange(420) + rng.choice([0, 0.5]),
        "z": f"<{rng.randrange(400)}>",
    }
    for name in rng.sample(sorted(attributes), rng.randrange(3)):
        del attributes[name]
    if rng.random() < 0.2:
        attributes["x"] = (rng.randrange(200), rng.randrange(200))
    return Event("e", attributes=attributes)


def churned(seed: int, size: int, steps: int) -> tuple[Index, NaiveMatcher, random.Random]:
    rng = random.Random(seed)
    index, naive = Index(), NaiveMatcher()
    for number in range(size):
        subscription = Subscription(f"s{number}", random_filter(rng))
        index.add(subscription)
        naive.add(subscription)
    for _ in range(steps):
        id = f"s{rng.randrange(size)}"
        if rng.random() < 0.5:
            assert index.remove(id) == naive.remove(id)
        else:
            subscription = Subscription(id, random_filter(rng))
            index.add(subscription)
            naive.add(subscription)
    return index, naive, rng
