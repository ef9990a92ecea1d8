"""Every way from subscriptions and events to matches. Each is a function of both, and gives a matrix of truths.

A way builds an index (one by one, together, with changes before, saved and loaded ...) and matches events with it (one
at a time, in batches of any size, from Arrow columns, from JSON). Rows are subscriptions, columns are events, as
``vectors`` has them. A match that is reported twice is an error of its own.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from matching.exact.generator import BOOLEANS, INSTANTS, NUMBERS, RARE, STRINGS, events, some_filter
from matching.exact.vectors import Truths
from recado.filters import expression
from recado.filters.records import KnownFilters, read_subscription
from recado.matching import index as snapshot
from recado.matching.batch import Pairs, match_batch, match_events
from recado.matching.index import Index
from recado.model.codec import write_cloudevent, write_flat
from recado.model.event import Event
from recado.model.filter import Compare
from recado.model.flat import to_flat
from recado.model.subscription import Subscription
from recado.semantics.matcher import SemanticMatcher

Way = Callable[[Sequence[Subscription], Sequence[Event]], Truths]
Build = Callable[[Sequence[Subscription]], Index]
Match = Callable[[Index, Sequence[Event]], Iterator[tuple[int, list[str] | pa.Array, list[int] | None]]]
SIZES = (1, 2, 3, 7, 64, 1_000, 8_192)


class TwiceError(AssertionError):
    """A pair was reported more than once."""


# -- building


def one_by_one(subscriptions: Sequence[Subscription]) -> Index:
    index = Index()
    for subscription in subscriptions:
        index.add(subscription)
    return index


def together(subscriptions: Sequence[Subscription]) -> Index:
    index = Index()
    index.add_many(subscriptions)
    return index


def with_changes(subscriptions: Sequence[Subscription], seed: int = 5) -> Index:
    """Other subscriptions come and go, every id has another filter at first; in between events are matched in all forms
    and the index is optimised.
    """
    rng = random.Random(seed)
    index = Index()
    some = events(rng, 20, mixed=False, arrays=False)
    batch = to_arrow(some)
    size = len(subscriptions)
    others = [Subscription(f"other-{at}", some_filter(rng)) for at in range(size // 2)]
    index.add_many([*others[: size // 4], *(Subscription(s.id, some_filter(rng)) for s in subscriptions[: size // 2])])
    steps: list[tuple[str, Any]] = [("add", other) for other in others[size // 4 :]]
    steps += [("add", subscription) for subscription in subscriptions]
    rng.shuffle(steps)
    for at in (size // 2, size // 4):
        steps[at:at] = [("optimize", None)]
    waiting = [other.id for other in others[: size // 4]]
    for verb, subscription in steps:
        if verb == "optimize":
            index.store.optimize()
            match_batch(index, batch)
            match_events(index, some)
            index.match(some[0])
            continue
        index.add(subscription)
        if subscription.id.startswith("other-"):
            waiting.append(subscription.id)
        if waiting and rng.random() < 0.4:
            assert index.remove(waiting.pop(rng.randrange(len(waiting))))
    for id in waiting:
        assert index.remove(id)
    assert len(index) == size
    return index


def with_repeats(subscriptions: Sequence[Subscription], seed: int = 6) -> Index:
    """Loaded from records in one go, as from a file in which ids and filters come again and again: most ids have the
    filters of others before their own, or some that come and go, and the last one counts.
    """
    rng = random.Random(seed)
    passing = [Subscription("", Compare("level", "==", level)) for level in range(12)]
    lines: list[tuple[float, bytes]] = []
    for subscription in subscriptions:
        places = [rng.random() for _ in range(rng.choice([0, 0, 1, 3]))]
        others = [rng.choice(passing if rng.random() < 0.7 else subscriptions) for _ in places]
        lines += [(place, to_record(other, subscription.id)) for place, other in zip(places, others, strict=True)]
        lines.append((max(places, default=0.7) + rng.random() / 4, to_record(subscription, subscription.id)))
    index, known = Index(), KnownFilters()
    index.add_many((read_subscription(line, known=known) for _, line in sorted(lines)), checked=True)
    assert len(index) == len(subscriptions)
    return index


def optimized(build: Build, subscriptions: Sequence[Subscription]) -> Index:
    index = build(subscriptions)
    index.store.optimize()
    return index


def used_before(subscriptions: Sequence[Subscription]) -> Index:
    """Events of other shapes have gone through, and access paths were chosen again by what was seen of them."""
    index = together(subscriptions)
    index.match(Event("e", "quote", attributes={"flag": True, "code": "A-1", "m0": 3}))
    match_events(index, [Event("e", "trip", attributes={"m0": n, "flag": n % 3 == 0}) for n in range(300)])
    index.store.optimize()
    return index


def saved(subscriptions: Sequence[Subscription]) -> Index:
    """Written to a file, mapped, and changed after that."""
    index = together(subscriptions[: len(subscriptions) // 2])
    with TemporaryDirectory() as folder:
        path = Path(folder) / "index"
        index.save(path)
        index = Index.load(path)
        for subscription in subscriptions[len(subscriptions) // 2 :]:
            index.add(subscription)
        return snapshot.from_bytes(snapshot.to_bytes(index))


# -- matching


def single(index: Index, them: Sequence[Event]) -> Truths | Iterator[tuple[int, Any]]:
    return ((at, index.match(event)) for at, event in enumerate(them))


def in_batches(size: int, index: Index, them: Sequence[Event]) -> Iterator[tuple[int, Any]]:
    for first in range(0, len(them), size):
        yield first, _of_pairs(index, match_events(index, list(them[first : first + size])))


def from_arrow(size: int, index: Index, them: Sequence[Event]) -> Iterator[tuple[int, Any]]:
    """Typed columns; events must have none of the generator's mixed names."""
    batch = to_arrow(them)
    for first in range(0, len(them), size):
        yield first, _of_pairs(index, match_batch(index, batch.slice(first, size)))


def from_json(size: int, index: Index, them: Sequence[Event]) -> Iterator[tuple[int, Any]]:
    """Flat, nested and CloudEvents by turns, in one column of text."""
    texts = [to_json(event, at) for at, event in enumerate(them)]
    batch = pa.RecordBatch.from_pydict({"event": texts})
    for first in range(0, len(them), size):
        yield first, _of_pairs(index, match_batch(index, batch.slice(first, size), json_column="event"))


def _of_pairs(index: Index, pairs: Pairs) -> tuple[pa.Array, Any]:
    return pairs.ids(index), pairs.events


def run(build: Build, match: Any, subscriptions: Sequence[Subscription], them: Sequence[Event]) -> Truths:
    return fill(subscriptions, them, match(build(subscriptions), them))


def fill(subscriptions: Sequence[Subscription], them: Sequence[Event], parts: Any) -> Truths:
    """What was found as a matrix; ``parts`` have the number of an event and its ids, or of a first event and pairs."""
    numbers = {subscription.id: row for row, subscription in enumerate(subscriptions)}
    ids = pa.array(list(numbers), pa.large_string())
    found = np.zeros((len(subscriptions), len(them)), np.bool_)
    count = 0
    for first, part in parts:
        if isinstance(part, list):
            rows: Any = [numbers[id] for id in part]
            columns: Any = first
        else:
            rows = pc.index_in(part[0], value_set=ids).to_numpy(zero_copy_only=False)
            columns = part[1] + first
        found[rows, columns] = True
        count += len(rows)
    if count != np.count_nonzero(found):
        raise TwiceError(f"{count:,} matches were reported, {np.count_nonzero(found):,} different ones")
    return found


OWN_NAMES = {"measure": "levenshtein", "threshold": 0.95, "values": "string"}
"""Semantic settings by which a name means itself and nothing else, so results are those of exact subscriptions."""


def by_meaning(
    semantic: dict[str, Any] | None, size: int, subscriptions: Sequence[Subscription], them: Sequence[Event]
) -> Truths:
    """Through the matcher that also knows semantic subscriptions."""
    matcher = SemanticMatcher()
    matcher.add_many([msgspec.structs.replace(subscription, semantic=semantic) for subscription in subscriptions])
    assert matcher.semantic == (0 if semantic is None else len(subscriptions))
    parts: list[tuple[int, Any]] = []
    for first in range(0, len(them), size):
        found = matcher.match_many(them[first : first + size])
        parts += [(first + at, ids) for at, ids in enumerate(found)]
    return fill(subscriptions, them, parts)


WAYS: dict[str, Way] = {
    "one by one, single": partial(run, one_by_one, single),
    "one by one, batches of 64": partial(run, one_by_one, partial(in_batches, 64)),
    "together, single": partial(run, together, single),
    **{f"together, batches of {size:,}": partial(run, together, partial(in_batches, size)) for size in SIZES},
    "with changes, single": partial(run, with_changes, single),
    "with changes, batches of 1,000": partial(run, with_changes, partial(in_batches, 1_000)),
    "with changes and optimised, batches of 64": partial(
        run, partial(optimized, with_changes), partial(in_batches, 64)
    ),
    "with repeats, single": partial(run, with_repeats, single),
    "with repeats, batches of 1,000": partial(run, with_repeats, partial(in_batches, 1_000)),
    "used before, single": partial(run, used_before, single),
    "used before, batches of 1,000": partial(run, used_before, partial(in_batches, 1_000)),
    "saved, single": partial(run, saved, single),
    "saved, batches of 1,000": partial(run, saved, partial(in_batches, 1_000)),
    "JSON, batches of 64": partial(run, together, partial(from_json, 64)),
    "JSON, batches of 1,000": partial(run, with_changes, partial(from_json, 1_000)),
    "semantic matcher, single": partial(by_meaning, None, 1),
    "semantic matcher, batches of 1,000": partial(by_meaning, None, 1_000),
    "semantic subscriptions, single": partial(by_meaning, OWN_NAMES, 1),
    "semantic subscriptions, batches of 1,000": partial(by_meaning, OWN_NAMES, 1_000),
}
TYPED: dict[str, Way] = {
    **{f"Arrow, batches of {size:,}": partial(run, together, partial(from_arrow, size)) for size in SIZES},
    "with changes, Arrow batches of 64": partial(run, with_changes, partial(from_arrow, 64)),
    "saved, Arrow batches of 1,000": partial(run, saved, partial(from_arrow, 1_000)),
}


# -- forms of subscriptions and events


def to_record(subscription: Subscription, id: str) -> bytes:
    record = {"id": id, "filter": expression.format_expression(subscription.filter), "type": subscription.type}
    return msgspec.json.encode({name: value for name, value in record.items() if value})


def to_json(event: Event, at: int) -> str:
    if at % 3 == 0:
        return write_flat(event).decode()
    if at % 3 == 1 and event.type and event.source:
        return write_cloudevent(event).decode()
    return msgspec.json.encode(nested(to_flat(event))).decode()


def nested(members: dict[str, Any]) -> dict[str, Any]:
    """Dotted names as objects, and arrays that go together as arrays of objects."""
    out: dict[str, Any] = {}
    items = {name: value for name, value in members.items() if name.startswith("items.") and isinstance(value, list)}
    if len({len(value) for value in items.values()}) == 1:
        out["items"] = [
            {name.removeprefix("items."): value[at] for name, value in items.items()}
            for at in range(len(next(iter(items.values()))))
        ]
        members = {name: value for name, value in members.items() if name not in items}
    for name, value in members.items():
        if name.startswith("deep."):
            out.setdefault("deep", {})[name.removeprefix("deep.")] = value
        else:
            out[name] = value
    return out


_INSTANT = pa.timestamp("us", "UTC")
_KINDS: dict[str, pa.DataType] = {
    **dict.fromkeys(NUMBERS, pa.int64()), **dict.fromkeys(RARE, pa.int16()), **dict.fromkeys(STRINGS, pa.string()),
    **dict.fromkeys(BOOLEANS, pa.bool_()), **dict.fromkeys(INSTANTS, _INSTANT), "price": pa.float64(),
    "ratio": pa.float64(), "m0": pa.int32(), "m1": pa.uint16(), "city": pa.large_string(),
    "code": pa.dictionary(pa.int32(), pa.string()),
    "tags": pa.list_(pa.string()), "levels": pa.list_(pa.float64()), "items.sku": pa.large_list(pa.string()),
    "items.price": pa.list_(pa.float64()),
}  # fmt: skip


def to_arrow(them: Sequence[Event]) -> pa.RecordBatch:
    """One column an attribute, those below ``deep`` in a struct; lists only if some event has one."""
    names = [name for name in _KINDS if name not in ("id", "type", "source", "time")]
    columns: dict[str, Any] = {name: [_plain(event.attributes.get(name)) for event in them] for name in names}
    columns |= {"id": [e.id for e in them], "type": [e.type for e in them], "source": [e.source for e in them]}
    columns["time"] = [e.time for e in them]
    arrays = {
        name: pa.array(column, _KINDS[name])
        for name, column in columns.items()
        if not (pa.types.is_nested(_KINDS[name]) and all(value is None for value in column))
    }
    deep = {name: arrays.pop(name) for name in list(arrays) if name.startswith("deep.")}
    fields = [name.removeprefix("deep.") for name in deep]
    arrays["deep"] = pa.StructArray.from_arrays(list(deep.values()), fields)
    return pa.RecordBatch.from_pydict(arrays)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return value if not isinstance(value, datetime) else value.astimezone()
