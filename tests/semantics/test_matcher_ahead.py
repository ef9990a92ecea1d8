"""What is worked out ahead, while subscriptions come and go, changes no result."""

from __future__ import annotations

import json
import random

from recado.filters.records import read_subscription
from recado.model.codec import read_event
from recado.semantics import matcher_shapes
from recado.semantics.cache import SimilarityCache
from recado.semantics.engine import Semantics
from recado.semantics.match import semantic_match
from recado.semantics.matcher import SemanticMatcher

NAMES = ("price", "prices", "prize", "sale price", "salePrice", "colour", "color", "collar", "weight", "wait")
TEXTS = ("red", "reed", "read", "blue", "blew")


def a_subscription(rng, number):
    name, other, text = rng.choice(NAMES), rng.choice(NAMES), rng.choice(TEXTS)
    filter = rng.choice([f"{{{name}, GT, 5}}", f"{{{name}, GT, 5; {other}, LT, 9}}", f"{{{name}, SM, {text}}}"])
    semantic = {
        "measure": "levenshtein",
        "threshold": rng.choice([0.3, 0.6]),
        "unmatched": rng.choice(["fail", "ignore"]),
        "assignment": rng.choice(["best", "best", "one-to-one"]),
    }
    return read_subscription(json.dumps({"id": f"s{number}", "filter": filter, "semantic": semantic}))


def an_event(rng, number):
    values = [rng.randrange(12), rng.choice(TEXTS), [rng.choice(TEXTS), rng.randrange(12)]]
    return read_event({"id": str(number)} | {name: rng.choice(values) for name in rng.sample(NAMES, rng.randint(1, 5))})


def test_steps_between_changes_change_nothing(monkeypatch):
    monkeypatch.setattr(matcher_shapes, "STEP_NAMES", 1)
    semantics = Semantics(cache=SimilarityCache())
    for seed in range(15):
        rng = random.Random(seed)
        matcher, held = SemanticMatcher(semantics, shapes=rng.choice([2, 50])), {}
        events = [an_event(rng, number) for number in range(12)]
        running = []
        for turn in range(80):
            running = [steps for steps in running if next(steps, steps) is None]
            match rng.randrange(5):
                case 0:
                    running.append(matcher.preparing(rng.sample(events, 3)))
                case 1:
                    sub = held[f"s{turn}"] = a_subscription(rng, turn)
                    matcher.add(sub)
                case 2 if held:
                    assert matcher.remove(held.pop(rng.choice(list(held))).id)
                case _:
                    event = rng.choice(events)
                    expected = sorted(id for id, sub in held.items() if semantic_match(event, sub, semantics=semantics))
                    assert matcher.match(event) == expected, (seed, turn)


def test_what_is_prepared_asks_no_measure():
    semantics = Semantics(cache=None)
    for seed in range(10):
        rng = random.Random(seed)
        matcher = SemanticMatcher(semantics)
        matcher.add_many(a_subscription(rng, number) for number in range(20))
        events = [an_event(rng, number) for number in range(12)]
        for _ in matcher.preparing(events):
            pass
        assert matcher.prepared(events)
        asked, semantics.similarities = semantics.similarities, None  # type: ignore[method-assign]  # nobody may
        try:
            found = matcher.match_many(events)
        finally:
            semantics.similarities = asked  # type: ignore[method-assign]  # as it was
        assert found == [matcher.match(event) for event in events]
