"""Mixed filters and events with an evaluator of its own, written from the documentation of the filter language only.

It imports nothing of Recado on purpose: what it says is right for another reason than that the code does it. A filter
is a tuple, ``("and", …)`` or ``("between", name, low, high)``; an event a dictionary as an application has it, nested,
with None for what is absent.
"""

import datetime as dt
import itertools
import json
import math
import re
from random import Random

UTC = dt.UTC
TYPES = ["trip", "push", "reading"]
BOROUGHS = ["Manhattan", "Brooklyn", "Queens", "Bronx", "Staten Island", "Østerbro", "São Paulo"]
ACTIONS = ["opened", "closed", "reopened", "synchronize", "Opened"]
SKUS = ["A-1", "B-22", "c-333", "ß-4"]
TEXTS = {
    "type": TYPES,
    "source": ["/ny", "/gh"],
    "action": ACTIONS,
    "tags": ["a", "bb", "ccc", ""],
    "pickup.borough": BOROUGHS,
    "items.sku": SKUS,
    "Note": ["a", "A", "aB", "é", ""],
    "note": ["a"],
    "id": [f"e{i}" for i in range(400)],
}
NUMBERS = [
    "fare", "tolls", "passengers", "big", "levels", "pickup.zone", "pickup.geo.lat", "items.price", "Fare",
]  # fmt: skip
BOOLEANS = ["flag", "pickup.geo.ok"]
TIMES = ["time", "when", "pickup.at"]


def make(subscriptions, events, seed):
    """Events and filters."""
    drawing = _Drawing(Random(seed))
    return [drawing.event(i) for i in range(events)], [drawing.tree() for _ in range(subscriptions)]


def oracle(events, filters):
    """The pairs of event and subscription, ``s0`` being the first filter."""
    views = [flat(event) for event in events]
    return {
        (view["id"], f"s{number}")
        for number, one in enumerate(filters)
        for names in [names_of(one, set())]
        for view in views
        if matches(one, names, view)
    }


def instant(n):
    return dt.datetime(2026, 1, 1, tzinfo=UTC) + dt.timedelta(seconds=n * 977, microseconds=(n * 7919) % 1_000_000)


class _Drawing:
    def __init__(self, rng):
        self.rng = rng

    def maybe(self, value, share=0.8):
        return value if self.rng.random() < share else None

    def event(self, i):
        r, maybe = self.rng, self.maybe
        kind = r.choice(TYPES)
        fare = [round(r.uniform(-5, 80), 2), float(r.randint(0, 50)), 0.0, -0.0, math.inf, math.nan]
        geo = {"lat": maybe(round(r.uniform(40, 41), 4)), "ok": maybe(r.random() < 0.5)}
        pickup = {
            "zone": maybe(r.randint(1, 263)),
            "borough": maybe(r.choice(BOROUGHS)),
            "at": maybe(instant(r.randint(0, 2000))),
            "geo": maybe(geo),
        }
        items = [
            {"sku": maybe(r.choice(SKUS)), "price": maybe(round(r.uniform(0, 20), 2))} for _ in range(r.randint(0, 3))
        ]
        big = [2**53, 2**53 + 1, 2**63 - 1, -(2**63), 2**53 - 1, r.randint(-(2**62), 2**62)]
        return {
            "id": f"e{i}",
            "type": kind,
            "source": r.choice(["/ny", "/gh", "/iot", ""]),
            "time": maybe(instant(i), 0.9),
            "fare": maybe(r.choice(fare)) if kind != "push" else None,
            "tolls": maybe(r.choice([0.10, 5.55, 6.94, 12.75, 1000000.01])),
            "passengers": maybe(r.randint(0, 6)),
            "big": maybe(r.choice(big)),
            "flag": maybe(r.random() < 0.5),
            "action": maybe(r.choice(ACTIONS)),
            "tags": maybe([r.choice(["a", "bb", "ccc", "Dd", ""]) for _ in range(r.randint(0, 4))]),
            "levels": maybe([maybe(round(r.uniform(-10, 10), 1), 0.9) for _ in range(r.randint(0, 3))]),
            "when": maybe(instant(r.randint(0, 2000))),
            "pickup": maybe(pickup),
            "items": maybe(items),
            "Note": maybe("".join(r.choice("abAB éß%_*?") for _ in range(r.randint(0, 8)))),
        }

    def number(self, name):
        r = self.rng
        match name:
            case "big":
                odd = [2**53, 2**53 + 1, float(2**53), 2**63 - 1, -(2**63), float(2**63), 2**64 - 1]
                return r.choice([*odd, r.randint(-(2**62), 2**62)])
            case "tolls":
                return r.choice([0.1, 5.55, 6.94, 12.75, 1000000.01, 5, 6.93])
            case "fare":
                return r.choice([round(r.uniform(-5, 80), 2), r.randint(0, 50), 0, math.inf])
            case "passengers":
                return r.choice([0, 1, 2, 3, 2.5, 6])
            case "pickup.zone":
                return r.randint(1, 263)
            case "pickup.geo.lat":
                return round(r.uniform(40, 41), 4)
            case _:
                return round(r.uniform(-10, 20), 1)

    def predicate(self):
        share = self.rng.random()
        if share < 0.40:
            return self._about_number()
        if share < 0.80:
            return self._about_text()
        r = self.rng
        if share < 0.88:
            name = r.choice(BOOLEANS)
            return (r.choice(["==", "!=", "<"]), name, r.random() < 0.5) if r.random() < 0.8 else ("exists", name)
        name, op = r.choice(TIMES), r.choice(["<", "<=", ">", ">=", "==", "between"])
        bound = instant(r.randint(0, 2000) if name != "time" else r.randint(0, 400))
        if op == "between":
            return ("between", name, *sorted([bound, instant(r.randint(0, 2000))]))
        return (op, name, bound)

    def _about_number(self):
        r = self.rng
        name, op = r.choice(NUMBERS), r.choice(["==", "!=", "<", "<=", ">", ">=", "between", "in", "exists"])
        if op == "between":
            low, high = self.number(name), self.number(name)
            return ("between", name, *(sorted([low, high]) if r.random() < 0.9 else (low, high)))
        if op == "in":
            return ("in", name, [self.number(name) for _ in range(r.randint(0, 4))] + self._others(["x", True], 0.2))
        if op == "exists":
            return (op, name)
        return (op, name, self.number(name) if r.random() < 0.95 else "7")

    def _others(self, values, share):
        return values if self.rng.random() < share else []

    def _about_text(self):
        r = self.rng
        name = r.choice(list(TEXTS))
        value = r.choice(TEXTS[name])
        op = r.choice([
            "==", "!=", "<", ">=", "between", "in", "startswith", "endswith", "contains", "istartswith", "icontains",
            "like", "ilike", "matches", "similar", "exists",
        ])  # fmt: skip
        match op:
            case "between":
                return ("between", name, *sorted([r.choice(TEXTS[name]), r.choice(TEXTS[name])]))
            case "in":
                return ("in", name, [r.choice(TEXTS[name]) for _ in range(r.randint(0, 3))] + self._others([1], 0.1))
            case "startswith" | "endswith" | "contains" | "istartswith" | "icontains":
                part = value[: r.randint(0, 3)] if r.random() < 0.7 else value[-2:]
                return (op, name, part.swapcase() if op[0] == "i" else part)
            case "like" | "ilike":
                pattern = r.choice(["*" + value[1:], value[:2] + "*", "?" + value[1:], "*e*", "*"])
                return (op, name, pattern if op == "like" else pattern.upper())
            case "matches":
                return (op, name, r.choice(["[a-z]+", "(?i)[a-z]+ed", "[A-C]-\\d+", ".*o.*", "", "a|bb"]))
            case "similar":
                return (op, name, value, r.choice([0.5, 0.8, 1]))
            case "exists":
                return (op, name)
            case _:
                return (op, name, value)

    def tree(self, depth=0):
        share = self.rng.random()
        if depth > 2 or share < 0.35:
            return self.predicate()
        if share < 0.75:
            return ("and", *[self.tree(depth + 1) for _ in range(self.rng.randint(2, 3))])
        if share < 0.9:
            return ("or", self.tree(depth + 1), self.tree(depth + 1))
        return ("not", self.tree(depth + 1))


# -- as text


def literal(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dt.datetime):
        zone = dt.timezone(dt.timedelta(hours=(0, -3, 5)[value.second % 3]))
        return f't"{value.astimezone(zone).isoformat()}"'
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return "infinity" if value == math.inf else repr(value)


def text(one):
    """The filter in the language of expressions."""
    op = one[0]
    if op in ("and", "or"):
        return "(" + f" {op} ".join(map(text, one[1:])) + ")"
    if op == "not":
        return f"(not {text(one[1])})"
    name = f"`{one[1]}`"
    match op:
        case "exists":
            return f"exists {name}"
        case "between":
            return f"{name} between {literal(one[2])} and {literal(one[3])}"
        case "in":
            return f"{name} in {{{', '.join(map(literal, one[2]))}}}"
        case "istartswith" | "icontains" | "ilike":
            return f"{name} {op[1:]} i{literal(one[2])}"
        case "similar":
            return f"{name} similar to {literal(one[2])} at {one[3]}"
        case _:
            return f"{name} {op} {literal(one[2])}"


def as_json(event):
    """The event in the flat form, decoded."""
    return {**_jsonable(event), "time": event["time"].isoformat() if event["time"] else None}


def _jsonable(value):
    if isinstance(value, dt.datetime):
        return {"$time": value.isoformat()}
    if isinstance(value, float) and not math.isfinite(value):
        return {"$number": "NaN" if math.isnan(value) else "Infinity"}
    if isinstance(value, dict):
        return {name: _jsonable(inner) for name, inner in value.items()}
    return [_jsonable(inner) for inner in value] if isinstance(value, list) else value


# -- the evaluator


def flat(event):
    """The attributes by dotted name; lists are arrays."""
    out = {}

    def put(name, value):
        if isinstance(value, dict):
            for key, inner in value.items():
                put(f"{name}.{key}", inner)
        elif isinstance(value, list):
            for element in value:
                if isinstance(element, dict):
                    for key, inner in element.items():
                        if inner is not None:
                            out.setdefault(f"{name}.{key}", []).append(inner)
                elif element is not None:
                    out.setdefault(name, []).append(element)
        elif value is not None:
            out[name] = value

    for name, value in event.items():
        if name not in ("type", "source") or value != "":
            put(name, value)
    return out


def names_of(one, found):
    if one[0] in ("and", "or", "not"):
        for inner in one[1:]:
            names_of(inner, found)
    else:
        found.add(one[1])
    return found


def matches(one, names, view):
    """Some choice of one element from each array that the filter names has to do."""
    arrays = [name for name in names if isinstance(view.get(name), list)]
    choices = itertools.product(*(list(dict.fromkeys(view[name])) for name in arrays))
    return any(evaluate(one, {**view, **dict(zip(arrays, choice, strict=True))}) for choice in choices)


def evaluate(one, view):
    match one[0]:
        case "and":
            return all(evaluate(inner, view) for inner in one[1:])
        case "or":
            return any(evaluate(inner, view) for inner in one[1:])
        case "not":
            return not evaluate(one[1], view)
        case _:
            return holds(one, view.get(one[1]))


def kind(value):
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "text" if isinstance(value, str) else "instant"


def holds(one, value):
    op = one[0]
    if value is None:
        return False
    if op == "exists":
        return True
    if op == "in":
        return any(kind(other) == kind(value) and other == value for other in one[2])
    if op == "between":
        return kind(value) != "boolean" and kind(one[2]) == kind(value) and one[2] <= value <= one[3]
    if op in ("==", "!=", "<", "<=", ">", ">="):
        return _compares(op, value, one[2])
    return kind(value) == "text" and _text_holds(one, value)


def _compares(op, value, other):
    if kind(other) != kind(value) or value != value:
        return False
    if op in ("==", "!="):
        return (value == other) is (op == "==")
    if kind(value) == "boolean":
        return False
    return {"<": value < other, "<=": value <= other, ">": value > other, ">=": value >= other}[op]


def _text_holds(one, value):
    op, wanted = one[0], one[2]
    match op:
        case "startswith":
            return value.startswith(wanted)
        case "endswith":
            return value.endswith(wanted)
        case "contains":
            return wanted in value
        case "istartswith":
            return value.casefold().startswith(wanted.casefold())
        case "icontains":
            return wanted.casefold() in value.casefold()
        case "like":
            return _like(value, wanted)
        case "ilike":
            return _like(value.casefold(), wanted.casefold())
        case "matches":
            return re.fullmatch(wanted, value, re.DOTALL) is not None
        case _:
            left, right = value.casefold(), wanted.casefold()
            longest = max(len(left), len(right))
            return (1.0 if longest == 0 else 1 - _distance(left, right) / longest) >= one[3]


def _like(value, pattern):
    parts = (".*" if c == "*" else "." if c == "?" else re.escape(c) for c in pattern)
    return re.fullmatch("".join(parts), value, re.DOTALL) is not None


def _distance(left, right):
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        new = [i]
        for j, b in enumerate(right, 1):
            new.append(min(row[j] + 1, new[-1] + 1, row[j - 1] + (a != b)))
        row = new
    return row[-1]
