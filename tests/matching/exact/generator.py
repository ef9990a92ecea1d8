"""Many thousands of mixed filters and the events to try them on; a seed gives the same again.

What small random cases cannot show needs many filters at once: long lists that are split, constants that hundreds of
filters share, parts that can never be true beside filters that name the same constants. So constants come from pools
that are small for some names and large for others, and a good part of the filters belongs to families that hang in the
same list. Every kind of node and every odd value occurs: empty sets, booleans compared by order, NaN, infinities,
-0.0, integers around 2^53 and 2^63, decimals, instants with zones, arrays, arrays of objects, Unicode.

Each attribute has one kind, so that the same events can be put into typed Arrow columns, except those in ``MIXED``,
which only forms that carry a kind with each value can hold.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from recado.filters.evaluate import walk
from recado.model.event import Event
from recado.model.filter import (
    FALSE,
    TRUE,
    And,
    Between,
    Compare,
    Exists,
    Filter,
    In,
    Not,
    Or,
    Regex,
    Similar,
    Sql,
    Text,
)
from recado.model.subscription import Subscription
from recado.model.values import Value

START = datetime(2026, 10, 20, tzinfo=UTC)
ZONES = [UTC, timezone(timedelta(hours=-3)), timezone(timedelta(hours=5, minutes=30)), ZoneInfo("Europe/Lisbon")]
"""In Lisbon clocks are set back five days after the start."""

CITIES = [
    "Porto",
    "PORTO",
    "porto",
    "São Paulo",
    "sao paulo",
    "Straße",
    "STRASSE",
    "日本",
    "日本橋",
    "Łódź",
    "İzmir",
    "😀x",
]
CODES = [f"{letter}-{number}" for letter in "ABCaß" for number in range(40)]
TAGS = ["a", "ab", "abc", "abcabc", "b", "", "Dd", "zz"]
LETTERS = "abAB éß%_*?\\日x"
WORDS = ["", "a", "b", "ab", "aB", "é", "*", "a?b", "%", "\\", "日x", "xxxxxxxxxxxxxxxx"]
BIG = [2**53 - 1, 2**53, 2**53 + 1, 2**53 + 2, -(2**53) - 1, 2**62 + 1, 2**63 - 1, 2**63 - 2, -(2**63), -(2**63) + 1]
BEYOND = [2**63, 2**64 - 1, float(2**63), float(2**53), 1e300, -1e300]
ODD = [math.inf, -math.inf, -0.0, 0.0, 5e-324, 0.1, 1e-9]
PRICES = [0.0, 0.1, 5.55, 6.94, 12.75, 24.9, 24.99, 25.0, 49.5, 1_000_000.01]

NUMBERS = ["price", "count", "big", "ratio", "level", "levels", "items.price", "deep.zone", "m0", "m1", "m2", "m3"]
STRINGS = ["id", "type", "source", "code", "city", "note", "tags", "items.sku", "deep.name"]
BOOLEANS = ["flag", "deep.ok"]
INSTANTS = ["time", "when", "deep.at"]
MIXED = ["any", "marks"]
RARE = [f"rare{number}" for number in range(30)]
SQL = [
    "count > 3", "EXISTS flag AND code LIKE 'A-%'", "NOT (count IN (1, 2)) OR flag = TRUE", "LENGTH(city) > 5",
    "city = 'Porto' XOR flag", "count + 1 < 4", "type = 'quote' AND count != 2", "LOWER(code) = 'a-7'", "level = 30",
]  # fmt: skip
REGEXES = ["[a-z]+", "(?i)[a-z]+o", "[A-C]-\\d+", ".*o.*", "", "a|ab", "日.*", "A-[0-9]", "(ab)+c?", ".{3,5}"]
THRESHOLDS = [0.5, 0.8, 1, 0.0]
OPAQUE = 0.2
"""Of the regular expressions and similarities so many stay: the index leaves them to the evaluator, which is slow."""


def instant(rng: random.Random, many: int) -> datetime:
    n = rng.randrange(many)
    return (START + timedelta(seconds=n * 977, microseconds=n * 7919 % 1_000_000)).astimezone(rng.choice(ZONES))


# -- constants and values


def number_for(rng: random.Random, name: str) -> int | float:
    """A number that a filter compares the attribute with."""
    if name == "big":
        return rng.choice(BIG + BEYOND) if rng.random() < 0.9 else rng.randrange(-(2**62), 2**62)
    if name == "ratio":
        return rng.choice(ODD) if rng.random() < 0.5 else round(rng.uniform(-1, 1), 2)
    if name in ("price", "items.price"):
        return rng.choice(PRICES) if rng.random() < 0.5 else round(rng.uniform(-5, 60), 2)
    if name == "count":
        return rng.choice([0, 1, 2, 3, 4, 5, 6, 2.5, -1])
    if name in ("level", "deep.zone"):
        return rng.randrange(260)
    return rng.randrange(1000) if name.startswith("m") else round(rng.uniform(-10, 10), 1)


def string_for(rng: random.Random, name: str) -> str:
    if name == "id":
        return f"e{rng.randrange(2000)}"
    if name == "type":
        return rng.choice(["quote", "trip", "Trip", "reading"])
    if name == "source":
        return rng.choice(["/a", "/b", "/a/b"])
    if name in ("code", "items.sku"):
        return rng.choice(CODES)
    if name in ("city", "deep.name"):
        return rng.choice(CITIES)
    return rng.choice(TAGS if name == "tags" else WORDS)


def value_for(rng: random.Random, name: str) -> Value:
    """A constant of the attribute's kind, now and then of another."""
    if rng.random() < 0.04:
        return rng.choice([True, "7", 7, START, "", -0.0])
    if name in NUMBERS or name in RARE:
        return number_for(rng, name)
    if name in STRINGS:
        return string_for(rng, name)
    if name in BOOLEANS:
        return rng.random() < 0.5
    if name in INSTANTS:
        return instant(rng, 2000)
    return rng.choice([1, 1.0, True, False, "1", "true", "a", 2**53 + 1, START, 0.5, "", math.inf])


# -- filters


def predicate(rng: random.Random) -> Filter:
    chance = rng.random()
    if chance < 0.42:
        return number_predicate(rng, rng.choice(NUMBERS))
    if chance < 0.78:
        return string_predicate(rng, rng.choice(STRINGS))
    if chance < 0.86:
        name = rng.choice(BOOLEANS)
        return rng.choice([Compare(name, rng.choice(["==", "!=", "<", ">="]), value_for(rng, name)), Exists(name)])
    if chance < 0.93:
        return number_predicate(rng, rng.choice(INSTANTS))
    if chance < 0.97:
        return any_predicate(rng, rng.choice(MIXED))
    name = rng.choice(RARE)
    return rng.choice([Exists(name), Compare(name, "==", rng.randrange(8)), Compare(name, ">", rng.randrange(8))])


def number_predicate(rng: random.Random, name: str) -> Filter:
    """For whatever has an order."""
    op = rng.choice(["==", "!=", "<", "<=", ">", ">=", "between", "in", "exists"])
    if op == "between":
        low, high = value_for(rng, name), value_for(rng, name)
        if type(low) is not type(high) and {type(low), type(high)} != {int, float}:
            high = low
        if rng.random() < 0.9 and low > high:  # type: ignore[operator]  # of one kind
            low, high = high, low
        return Between(name, low, high)
    if op == "in":
        return In(name, tuple(value_for(rng, name) for _ in range(rng.choice([0, 1, 2, 3, 4, 9, 17]))))
    return Exists(name) if op == "exists" else Compare(name, op, value_for(rng, name))  # type: ignore[arg-type]


def string_predicate(rng: random.Random, name: str) -> Filter:
    value = string_for(rng, name)
    kind = rng.randrange(12)
    if kind < 3:
        return Compare(name, rng.choice(["==", "!=", "<", ">=", "<=", ">"]), value)  # type: ignore[arg-type]
    if kind == 3:
        low, high = sorted([value, string_for(rng, name)])
        return Between(name, low, high)
    if kind == 4:
        return In(name, tuple(string_for(rng, name) for _ in range(rng.choice([0, 1, 2, 3, 10, 20]))))
    if kind < 8:
        piece = value[: rng.randrange(5)] if rng.random() < 0.6 else value[-2:]
        fold = rng.random() < 0.3
        op = rng.choice(["prefix", "suffix", "contains"])
        return Text(name, op, piece.swapcase() if fold else piece, fold)  # type: ignore[arg-type]
    if kind == 8:
        pattern = rng.choice(
            [f"*{value[1:]}", f"{value[:2]}*", f"?{value[1:]}", "?" * len(value), "*o*", "*", "??*", f"{value}?", ""]
        )
        fold = rng.random() < 0.3
        return Text(name, "like", pattern.upper() if fold else pattern, fold)
    if kind == 9 and rng.random() < OPAQUE:
        return Regex(name, rng.choice(REGEXES))
    if kind == 10 and rng.random() < OPAQUE:
        return Similar(name, value, rng.choice(THRESHOLDS))
    return Exists(name)


def any_predicate(rng: random.Random, name: str) -> Filter:
    value = value_for(rng, name)
    return rng.choice(
        [
            Compare(name, rng.choice(["==", "!="]), value),  # type: ignore[arg-type]
            Compare(name, rng.choice(["<", ">="]), value),  # type: ignore[arg-type]
            In(name, tuple(value_for(rng, name) for _ in range(rng.randrange(5)))),
            Text(name, "prefix", "t"),
            Exists(name),
        ]
    )


def tree(rng: random.Random, depth: int = 0) -> Filter:
    chance = rng.random()
    if depth > 3 or chance < 0.35:
        return predicate(rng)
    if chance < 0.72:
        return And(tuple(tree(rng, depth + 1) for _ in range(rng.randrange(2, 4))))
    if chance < 0.88:
        return Or(tuple(tree(rng, depth + 1) for _ in range(2)))
    return Not(tree(rng, depth + 1))


def never(rng: random.Random) -> Filter:
    """A part that no event can satisfy; what stands beside it is dropped when it is compiled."""
    return rng.choice([In("code", ()), Compare("flag", "<", True), FALSE, Between("flag", False, True)])


def family(rng: random.Random) -> Filter:
    """Filters of a few shapes whose entries come together in the same lists."""
    n = rng.randrange(1000)
    shape = rng.randrange(14)
    flag = Compare("flag", "==", True)
    if shape == 0:
        return And((flag, Between("m0", n, n + rng.randrange(300)), Between("m2", n % 600, n % 600 + 400)))
    if shape == 1:
        narrow = Between("m2", n % 700, n % 700 + 200)
        return And((flag, Compare("m0", ">", n), narrow, Not(Compare("code", "==", rng.choice(CODES)))))
    if shape == 2:
        return And((Compare("type", "==", "quote"), Between("m0", n, n + 400), Between("m1", n - 200, n + 200)))
    if shape == 3:
        return And(tuple(Between(f"m{at}", low := rng.randrange(700), low + 300) for at in range(4)))
    if shape == 4:
        return And((never(rng), In("code", tuple(rng.sample(CODES, 3)))))
    if shape == 5:
        shared = In("code", tuple(rng.sample(CODES, 2)))
        return Or((And((never(rng), shared)), Compare("level", "==", rng.randrange(260))))
    if shape == 6:
        return Not(And((In("code", ()), Compare("code", "==", rng.choice(CODES)))))
    if shape == 7:
        return And((Exists("price"), Compare("m2", "<=", n), Compare("m2", ">=", n - 150)))
    if shape == 8:
        return Or((Compare("code", "==", rng.choice(CODES)), Between("m3", n, n + 3), Text("city", "prefix", "日")))
    if shape == 9:
        return And((Text("note", "contains", rng.choice(LETTERS)), Compare("m3", "<", n)))
    if shape == 12:
        return Compare("level", "==", n % 12)
    if shape == 11:
        return And((Text("city", "like", rng.choice(["??", "???*", "*?本*", "S?o*", "?zmir"])), Compare("m3", "<", n)))
    if shape == 10 and n < 1_000 * OPAQUE:
        return And((Compare("code", "==", rng.choice(CODES)), Regex("city", rng.choice(REGEXES))))
    return And((Between("when", instant(rng, 1000), instant(rng, 2000)), Compare("count", "==", n % 7)))


def some_filter(rng: random.Random) -> Filter:
    chance = rng.random()
    if chance < 0.55:
        return tree(rng)
    if chance < 0.95:
        return family(rng)
    if chance < 0.96:
        return Sql(rng.choice(SQL))
    return rng.choice([TRUE, FALSE, never(rng), Not(never(rng)), And(()), Or(())])


def compiled_filter(rng: random.Random) -> Filter:
    """One that the kernels decide by themselves, so that many more pairs can be compared in the same time."""
    while True:
        filter = some_filter(rng)
        if not any(isinstance(node, (Regex, Similar, Sql)) for node in walk(filter)):
            return filter


ODDITIES: list[Filter] = [
    Not(Exists("ratio")),
    Or((Exists("ratio"), Compare("count", "==", 99))),
    Or((Compare("any", "!=", 1), Compare("count", "==", 99))),
    Or((Compare("ratio", "!=", 5), Compare("big", ">", 2**53))),
    Text("city", "like", "??"),
    Or((Text("city", "like", "?本*"), Compare("level", "<", 3))),
    *(Compare("level", "==", level) for level in range(8)),
    *(Compare("tags", "==", tag) for tag in ("", "a", "ab", "zz")),
    Compare("levels", ">", 0),
    *(Regex("city", pattern) for pattern in ("S.*", "P.*", ".*o")),
    *(  # where events meet again that went different ways
        And((Or((Compare("m0", ">", n), Compare("level", "<", n // 4))), Or((Compare("count", "<", 3), Exists(name)))))
        for n, name in ((300, "ratio"), (600, "when"), (900, "code"))
    ),
]
"""What random filters ask too rarely: in trees, so that no list decides it. Every set has them."""


def subscriptions(
    rng: random.Random, count: int, draw: Callable[[random.Random], Filter] = some_filter
) -> list[Subscription]:
    types = [""] * 12 + ["quote", "trip", "t*", "*"]
    drawn = [Subscription(f"s{number}", draw(rng), type=rng.choice(types)) for number in range(count)]
    odd = [Subscription(f"s{number}", filter) for number, filter in enumerate(ODDITIES[: count // 8])]
    return odd + drawn[len(odd) :]


# -- events


def attributes_of(rng: random.Random, arrays: bool, mixed: bool) -> dict[str, Value | tuple[Value, ...]]:
    one: dict[str, Value | tuple[Value, ...] | None] = {
        "price": rng.choice(PRICES) if rng.random() < 0.4 else round(rng.uniform(-5, 60), 2),
        "count": rng.randrange(7),
        "big": rng.choice(BIG) if rng.random() < 0.8 else rng.randrange(-(2**62), 2**62),
        "ratio": rng.choice([*ODD, math.nan, math.nan]) if rng.random() < 0.5 else round(rng.uniform(-1, 1), 2),
        "level": rng.randrange(260),
        "flag": rng.random() < 0.5,
        "code": rng.choice(CODES),
        "city": rng.choice(CITIES),
        "note": "".join(rng.choice(LETTERS) for _ in range(rng.randrange(9))),
        "when": instant(rng, 2000),
        "deep.zone": rng.randrange(260),
        "deep.name": rng.choice(CITIES),
        "deep.ok": rng.random() < 0.5,
        "deep.at": instant(rng, 2000),
    }
    one |= {f"m{at}": rng.randrange(1000) for at in range(4)}
    one |= {name: rng.randrange(8) for name in rng.sample(RARE, 2)}
    if arrays and rng.random() < 0.3:
        one["tags"] = tuple(rng.choice(TAGS) for _ in range(rng.randrange(4)))
        one["levels"] = tuple(round(rng.uniform(-10, 10), 1) for _ in range(rng.randrange(3)))
        one["items.sku"] = tuple(rng.choice(CODES) for _ in range(rng.randrange(3)))
        one["items.price"] = tuple(rng.choice(PRICES) for _ in one["items.sku"])  # type: ignore[union-attr]
    if mixed:
        one["any"] = value_for(rng, "any")
        one["marks"] = tuple(value_for(rng, "marks") for _ in range(rng.randrange(3))) if arrays else None
        if rng.random() < 0.2:
            one["big"] = rng.choice(BEYOND)
    return {name: value for name, value in one.items() if value is not None and rng.random() < 0.8}


def events(rng: random.Random, count: int, *, arrays: bool = True, mixed: bool = True, first: int = 0) -> list[Event]:
    return [
        Event(
            f"e{number}",
            rng.choice(["quote", "trip", "Trip", "reading", ""]),
            rng.choice(["/a", "/b", "/a/b", ""]),
            instant(rng, 2000) if rng.random() < 0.9 else None,
            attributes_of(rng, arrays, mixed),
        )
        for number in range(first, first + count)
    ]
