"""The plain twin of the algebra: try every state of every attribute.

A ``Universe`` is built from the constants of some filters: around each constant it holds the constant and its
neighbours, besides absence, NaN, both booleans, and a few values of every kind. For comparisons, ranges, sets,
``exists`` and prefixes each region that such filters can tell apart has a member there, so a filter's meaning is the
set of combinations that it accepts: one bit each of a Python integer.
"""

import math
import random
from datetime import UTC, datetime, timedelta, timezone
from itertools import product

from recado.filters.evaluate import holds, walk
from recado.model.event import ENVELOPE
from recado.model.filter import (
    And,
    Between,
    Compare,
    Constant,
    Exists,
    In,
    Not,
    Or,
    Regex,
    Similar,
    Text,
)
from recado.model.values import INT_MAX, INT_MIN

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
FIRST_INSTANT = datetime.min.replace(tzinfo=UTC)
ALWAYS = [None, math.nan, True, False, "", "zz", -math.inf, math.inf, 0, 0.5, FIRST_INSTANT, NOON]
NUMBERS = [0, 1, 2, 3, 1.5, 2.0, -1, 0.1, -0.0, 2**53, 2**53 + 1, float(2**53), 2**64 - 1, -(2**63), math.inf, 5e-324]
STRINGS = ["a", "ab", "abc", "b", "", "a\0", "B", "abab", "\U0010ffff", "ß", "xb"]
TIMES = [NOON, NOON + timedelta(microseconds=1), NOON.astimezone(timezone(timedelta(hours=-3))), FIRST_INSTANT]
LIKES = ["a*", "*b", "*b*", "a*b", "a?", "?", "*", "", "ab", "*?*", "?*b*?", "\\*", "A*b"]
REGEXES = ["a.*", "a|b", ".*b", "ab", "[ab]+", "", ".*", "a{2}"]


# -- meaning by enumeration --------------------------------------------------------------------------------------------


class Universe:
    """Every combination of the states that the given filters can tell apart."""

    def __init__(self, *filters):
        states = {}
        for filter in filters:
            for node in walk(filter):
                if not isinstance(node, And | Or | Not | Constant):
                    states.setdefault(node.name, list(ALWAYS)).extend(_states_around(node))
        self.states = {name: _distinct(found) for name, found in sorted(states.items())}
        self.size = math.prod(len(found) for found in self.states.values())
        self.all = (1 << self.size) - 1
        self._masks = self._one_mask_per_state()

    def _one_mask_per_state(self):
        masks = {}
        period = self.size
        for name, found in self.states.items():
            block = period // len(found)
            repeats = self.all // ((1 << period) - 1)  # a one at the start of every period
            masks[name] = [(((1 << block) - 1) << (i * block)) * repeats for i in range(len(found))]
            period = block
        return masks

    def mask(self, filter):
        """The combinations that the filter accepts."""
        match filter:
            case Constant(value):
                return self.all if value else 0
            case Not(part):
                return self.all ^ self.mask(part)
            case And(parts):
                out = self.all
                for part in parts:
                    out &= self.mask(part)
                return out
            case Or(parts):
                out = 0
                for part in parts:
                    out |= self.mask(part)
                return out
        out = 0
        for state, mask in zip(self.states.get(filter.name, ()), self._masks.get(filter.name, ()), strict=True):
            if state is not None and holds(filter, state):
                out |= mask
        return out

    def meet(self, mine, theirs):
        """Could one event be in both masks? Its views share the envelope and what is absent; the rest may be arrays."""
        groups = [(mine, theirs)]
        for name, masks in self._masks.items():
            absent = masks[self.states[name].index(None)]
            parts = masks if name in ENVELOPE else (absent, self.all ^ absent)
            groups = [(a & part, b & part) for a, b in groups for part in parts if a & part and b & part]
        return any(a and b for a, b in groups)

    def views(self):
        """The same combinations as plain mappings, for small universes."""
        for states in product(*self.states.values()):
            yield {name: state for name, state in zip(self.states, states, strict=True) if state is not None}


def _states_around(node):
    match node:
        case Compare(_, _, value):
            return _neighbours(value)
        case Between(_, low, high):
            return [*_neighbours(low), *_neighbours(high)]
        case In(_, values):
            return [state for value in values for state in _neighbours(value)]
        case Text(_, _, text) | Regex(_, text) | Similar(_, text):
            last = chr(min(ord(text[-1]) + 1, 0x10FFFF)) if text else "a"
            return [text, text + "\0", text[:-1] + last, "x" + text, text + "x", text.swapcase(), text.replace("*", "")]
    return []


def _neighbours(value):
    if isinstance(value, bool):
        return []
    if isinstance(value, str):
        return [value, value + "\0", value + "x", value[:-1]]
    if isinstance(value, datetime):
        steps = [value] if value == FIRST_INSTANT else [value, value - timedelta(microseconds=1)]
        return [*steps, value + timedelta(microseconds=1)]
    near = [math.nextafter(float(value), math.inf), math.nextafter(float(value), -math.inf)]
    whole = [value - 1, value + 1] if isinstance(value, int) else []
    return [value, *near, *(n for n in whole if INT_MIN <= n <= INT_MAX)]


def _distinct(states):
    """Equal states once; true is not one."""
    return list({(isinstance(state, bool), state): state for state in states}.values())


# -- random filters ----------------------------------------------------------------------------------------------------


class Maker:
    """Random filters over few names and values, so that they touch, overlap and repeat."""

    def __init__(self, seed, names="ab"):
        self.rng = random.Random(seed)
        self.names = names

    def value(self):
        rng = self.rng
        pool = rng.choices([NUMBERS, STRINGS, TIMES, [True, False]], [5, 4, 2, 1])[0]
        return rng.choice(pool[: rng.choice([3, len(pool)])])

    def simple(self):
        rng = self.rng
        name = rng.choice(self.names)
        roll = rng.random()
        if roll < 0.5:
            return Compare(name, rng.choice(["==", "!=", "<", "<=", ">", ">="]), self.value())
        if roll < 0.65:
            return Between(name, *self.pair())
        if roll < 0.8:
            return In(name, tuple(self.value() for _ in range(rng.randrange(4))))
        if roll < 0.9:
            return Text(name, "prefix", rng.choice(STRINGS))
        return Exists(name)

    def pair(self):
        pool = self.rng.choice([NUMBERS, STRINGS, TIMES])
        low, high = self.rng.choice(pool), self.rng.choice(pool)
        return (low, high) if self.rng.random() < 0.2 or low <= high else (high, low)

    def opaque(self):
        rng = self.rng
        name = rng.choice(self.names)
        roll = rng.random()
        if roll < 0.5:
            return Text(name, rng.choice(["prefix", "suffix", "contains"]), rng.choice(STRINGS), rng.random() < 0.4)
        if roll < 0.75:
            return Text(name, "like", rng.choice(LIKES), rng.random() < 0.3)
        if roll < 0.9:
            return Regex(name, rng.choice(REGEXES))
        return Similar(name, rng.choice(STRINGS), rng.choice([0.0, 0.5, 0.6, 1.0]))

    def leaf(self, opaque):
        return self.opaque() if self.rng.random() < opaque else self.simple()

    def conjunction(self, size=4, negations=0.2, opaque=0.0):
        parts = [self.leaf(opaque) for _ in range(self.rng.randrange(1, size + 1))]
        return And(tuple(Not(p) if self.rng.random() < negations else p for p in parts))

    def tree(self, depth=3, opaque=0.0):
        rng = self.rng
        if depth == 0 or rng.random() < 0.25:
            return self.leaf(opaque) if rng.random() < 0.97 else Constant(rng.random() < 0.5)
        if rng.random() < 0.2:
            return Not(self.tree(depth - 1, opaque))
        parts = tuple(self.tree(depth - 1, opaque) for _ in range(rng.choice([0, 1, 2, 2, 2, 3])))
        return rng.choice([And, Or])(parts)

    def reworded(self, filter):
        """The same meaning, written differently."""
        rng = self.rng
        match filter:
            case And(parts) | Or(parts):
                kind, other = (And, Or) if isinstance(filter, And) else (Or, And)
                new = [self.reworded(part) for part in parts]
                rng.shuffle(new)
                if new and rng.random() < 0.3:
                    new.append(rng.choice(new))
                if len(new) > 2 and rng.random() < 0.3:
                    new = [kind(tuple(new[:2])), *new[2:]]
                if new and rng.random() < 0.3:  # absorption
                    new.append(other((new[0], self.simple())))
                if rng.random() < 0.3:
                    return Not(other(tuple(Not(part) for part in new)))
                return kind(tuple(new))
            case Not(part):
                return Not(self.reworded(part))
            case Between(name, low, high):
                if rng.random() < 0.5:
                    return And((Compare(name, ">=", low), Compare(name, "<=", high)))
            case In(name, values):
                shuffled = rng.sample(values, len(values))
                if rng.random() < 0.5:
                    return Or(tuple(Compare(name, "==", value) for value in shuffled))
                return In(name, tuple(shuffled))
            case Compare(name, op, value):
                return self._reworded_compare(name, op, value, filter)
        return Not(Not(filter)) if rng.random() < 0.2 else filter

    def _reworded_compare(self, name, op, value, same):
        roll = self.rng.random()
        if op == "==" and roll < 0.3:
            return In(name, (value,))
        if op == "==" and roll < 0.6 and not isinstance(value, bool):
            return Between(name, value, value)
        if op == "!=" and roll < 0.5 and not isinstance(value, bool):
            return Or((Compare(name, "<", value), Compare(name, ">", value)))
        if op in ("<=", ">=") and roll < 0.5 and not isinstance(value, bool):
            return Or((Compare(name, op[0], value), Compare(name, "==", value)))
        if isinstance(value, int) and not isinstance(value, bool) and float(value) == value:
            return Compare(name, op, float(value))
        return same
