"""The index over aliases. What an event shows to it is encoded once for each attribute, not once for each alias.

An attribute may go by twenty aliases. Its bounds and its text are the same for all of them; only the code of its value
has to be looked up for each, since the constants differ. So this index costs an event little more than an index over
the attributes themselves. The kernels are the index's own.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain, pairwise
from struct import pack_into
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recado.filters.evaluate import decide, evaluate
from recado.matching.dictionary import ABSENT, NAN, key_of
from recado.matching.encode import Columns
from recado.matching.index import Index
from recado.matching.kernels.columns import UNCERTAIN, sort_by_event
from recado.matching.kernels.instructions import bracket
from recado.matching.kernels.verify_columns import FOLDED_TEXT, INSTANT, NUMBER, TEXT
from recado.matching.rows import Row
from recado.matching.undecided import Evaluation, Sifted, Sifting, sift_columns, sift_views
from recado.model.subscription import Subscription
from recado.model.values import Kind, Value, in_utc, microseconds
from recado.semantics.matcher_shapes import Plan, Shown, Similar

Array = NDArray[Any]
Cell = tuple[Hashable, int, float, float]
"""Of a value: the key of its code, the code if no filter names it, the floats at or below and at or above."""
CHUNK = 2_048
SPARE = 16
"""Rows for similar texts, at first."""
_STRINGS = frozenset({str})
_NOTHING: Cell = (None, ABSENT, np.nan, np.nan)


class _Column(NamedTuple):
    """An attribute, the numbers of its aliases, their constants, and the numbers whose text is looked into.

    ``plain`` are the codes of any string, if no filter names one.
    """

    name: str
    numbers: tuple[int, ...]
    codes: tuple[dict[Hashable, int], ...]
    texts: tuple[tuple[int, bool, bool], ...]
    plain: tuple[int, ...]


class _Layout(NamedTuple):
    """``plain`` are the attributes, if strings in all of them show nothing but that they are there.

    ``row`` is what the kernel reads if they are: first the ``top`` numbers, then room for similar texts. ``cells`` is
    what it reads if not. An event is matched under the index's lock, so these serve all.
    """

    columns: list[_Column]
    top: int
    row: Row
    cells: Row
    plain: list[str]


class AliasIndex(Index):
    """An index whose events come as ``Shown``."""

    def __init__(self) -> None:
        super().__init__()
        self._changes = 0

    def _change(self) -> None:
        self._changes += 1

    def add(self, subscription: Subscription, checked: bool = False) -> None:
        self._change()
        super().add(subscription, checked)

    def add_many(self, subscriptions: Iterable[Subscription], checked: bool = False) -> int:
        self._change()
        return super().add_many(subscriptions, checked)

    def remove(self, subscription_id: str) -> bool:
        self._change()
        return super().remove(subscription_id)

    # -- one event -----------------------------------------------------------------------------------------------------

    def match_views(self, views: Sequence[Shown]) -> list[str]:
        """The ids of the subscriptions that match one of the views of an event."""
        with self.lock:
            if len(views) == 1:
                return self._match_alone(views[0])
            entries = np.unique(np.concatenate([self.match_view(view) for view in views]))
            self.count(1, len(entries))
            return self.registry.ids_of(entries)

    def _match_alone(self, view: Shown) -> list[str]:
        """The same for the only view of an event: the kernel writes the ids, unless it cannot decide all."""
        registry = self.registry
        found, uncertain, many, written = self._run(self.encode(view), registry.handle)
        ids = registry.read_ids(many, written)
        if ids is not None:
            self.count(1, found)
            return ids
        entries = self._blank.found[:found]
        if uncertain:
            entries = self._decide(view, entries, self._blank.uncertain[:uncertain])
        self.count(1, len(entries))
        return registry.ids_of(entries)

    def encode(self, view: Mapping[str, Value]) -> Row:
        assert isinstance(view, Shown)
        layout, values = self._layout(view.plan), view.values_of
        similar = [number for one in view.texts for number in one.numbers]
        top = layout.top
        end = top + len(similar)
        if end > layout.row.room:
            layout = self._widen(view.plan, layout, end)
        is_plain = layout.plain and _STRINGS.issuperset(map(type, map(values.__getitem__, layout.plain)))
        row = layout.row if is_plain else layout.cells
        row.size = end
        if similar:
            row.words[top:end] = similar
        return row if is_plain else self._put_cells(layout, values, row)

    def _widen(self, plan: Plan, layout: _Layout, least: int) -> _Layout:
        numbers = layout.row.words[: layout.top]
        wider = layout._replace(row=_blank_row(numbers, 2 * least), cells=_blank_row(numbers, 2 * least))
        plan.layout = self._changes, wider
        return wider

    def _put_cells(self, layout: _Layout, values: Mapping[str, Value], row: Row) -> Row:
        """Codes, bounds and texts into the row."""
        codes: list[int] = []
        bounds: list[float] = []
        texts: list[int] = []
        data = bytearray()
        for name, _, dictionaries, with_text, plain in layout.columns:
            value = values[name]
            if plain and type(value) is str:
                codes += plain
                continue
            key, other, down, up = cell_of(value)
            codes += [known.get(key, other) for known in dictionaries]
            if other & 1:  # a number or an instant
                bounds += (down, up) * len(dictionaries)
            elif with_text and type(value) is str:
                texts += _append_text(data, value, with_text)
        buffer = row.words.data
        pack_into(f"{len(codes)}q", buffer, 8 * row.room, *codes)
        if bounds:
            pack_into(f"{len(bounds)}d", buffer, 16 * row.room, *bounds)
        if texts:
            row.put_texts(texts, data)
        else:
            row.text_count = 0
        return row

    def similar(self, aliases: list[str]) -> Similar:
        numbers = self.dictionary.names
        return Similar(aliases, [numbers[alias] for alias in aliases if alias in numbers])

    def _layout(self, plan: Plan) -> _Layout:
        """The plan in this index's numbers; made anew when subscriptions have been added."""
        if plan.layout is None or plan.layout[0] != self._changes:
            plan.layout = self._changes, self._lay_out(plan)
        return plan.layout[1]

    def _lay_out(self, plan: Plan) -> _Layout:
        numbers: dict[str, list[int]] = {}
        for alias, name in plan.pairs:
            number = self.dictionary.names.get(alias)
            if number is not None:
                numbers.setdefault(name, []).append(number)
        columns = [self._column(name, tuple(some)) for name, some in numbers.items()]
        every = [number for column in columns for number in column.numbers]
        plain = [column.name for column in columns] if all(column.plain for column in columns) else []
        row, cells = (_blank_row(np.array(every, np.int64), len(every) + SPARE) for _ in range(2))
        return _Layout(columns, len(every), row, cells, plain)

    def _column(self, name: str, numbers: tuple[int, ...]) -> _Column:
        held = self.dictionary
        wanted = [(number, held.wants_text[number], held.wants_folded[number]) for number in numbers]
        codes = tuple(held.codes[number] for number in numbers)
        texts = tuple(one for one in wanted if any(one[1:]))
        return _Column(name, numbers, codes, texts, () if texts or any(codes) else (Kind.STRING,) * len(numbers))

    def sifting(self, views: Iterable[Shown], number: int) -> Sifting:
        """The same one view at a time, leaving what takes long as work to do; ``number`` is that of the event."""
        shown: list[Shown] = []

        def each() -> Iterator[Shown]:
            for view in views:
                shown.append(view)
                yield view

        return sift_views(self, each(), number, _evaluation(shown))

    # -- many events ---------------------------------------------------------------------------------------------------

    def sift_many(self, views: Sequence[Sequence[Shown]], numbers: Sequence[int]) -> Sifted:
        """For each of some events, given by its views, what is found and what is left as work to do."""
        with self.lock:
            owners = np.repeat(np.arange(len(views), dtype=np.int32), [len(some) for some in views])
            columns = self._columns(list(chain.from_iterable(views)))
            return sift_columns(self, columns, owners, numbers, lambda at: _evaluation(views[at]))

    def match_many(self, views: Sequence[Shown], owners: Sequence[int], events: int) -> list[list[str]]:
        """For each of so many events the ids that match one of its views; ``owners`` says whose each view is."""
        with self.lock:
            parts = [self._match_chunk(views[at : at + CHUNK]) for at in range(0, len(views), CHUNK)]
            rows = np.concatenate([part + at * CHUNK for at, (part, _) in enumerate(parts)])
            entries = np.concatenate([part for _, part in parts])
            rows, entries = self.distinct(np.array(owners, np.int32)[rows], entries, events)
            self.count(events, len(rows))
            offsets, slots = sort_by_event(rows, entries, self.registry.members, self.registry.blocks, events)  # type: ignore[no-untyped-call]  # machine code
            ids = self.registry.id_array(slots).to_pylist() if len(slots) else []
            return [ids[start:end] for start, end in pairwise(offsets.tolist())]

    def _match_chunk(self, views: Sequence[Shown]) -> tuple[Array, Array]:
        rows, found = self.run_columns(self._columns(views))
        entries = (found & 0xFFFFFFFF).astype(np.int32)
        kept = found < UNCERTAIN
        for at in np.flatnonzero(~kept).tolist():
            kept[at] = evaluate(self.opaque_filter(int(entries[at])), views[rows[at]])
        return rows[kept], entries[kept]

    def _columns(self, views: Sequence[Shown]) -> Columns:
        columns = Columns(self.dictionary, len(views))
        plans: dict[int, tuple[Plan, list[int]]] = {}
        texts: dict[int, list[int]] = {}
        for at, view in enumerate(views):
            plans.setdefault(id(view.plan), (view.plan, []))[1].append(at)
            for similar in view.texts:
                for number in similar.numbers:
                    texts.setdefault(number, []).append(at)
        for number, rows in texts.items():
            codes = np.full(columns.size, ABSENT, np.int32)
            codes[rows] = Kind.BOOL
            columns.put_codes(number, codes)
        layouts = [(self._layout(plan), rows) for plan, rows in plans.values()]
        for names, numbers in _alike(layouts).items():
            values: list[Value | None] = [None] * len(views)
            for name, (_, rows) in zip(names, layouts, strict=True):
                if name is not None:
                    for at in rows:
                        values[at] = views[at].values_of[name]
            self._put_values(columns, numbers, values)
        return columns

    def _put_values(self, columns: Columns, numbers: list[int], values: list[Value | None]) -> None:
        """One column of values for several aliases."""
        cells = [_NOTHING if value is None else cell_of(value) for value in values]
        keyed = [(key, other) for key, other, _, _ in cells]
        for number in numbers:
            get = self.dictionary.codes[number].get
            columns.put_codes(number, np.array([get(key, other) for key, other in keyed], np.int32))
        kinds = np.array([other for _, other in keyed])
        bounds = np.array([cell[2:] for cell in cells])
        for which, kind in ((NUMBER, Kind.NUMBER), (INSTANT, Kind.TIME)):
            if (kinds == kind).any():
                downs, ups = np.where(kinds == kind, bounds.T, np.nan)
                columns.put_ordered(numbers[0], which, downs, downs if np.array_equal(downs, ups, True) else ups)
                columns.rows[numbers, which] = columns.rows[numbers[0], which]
        self._put_texts(columns, numbers, values)

    def _put_texts(self, columns: Columns, numbers: list[int], values: list[Value | None]) -> None:
        held = self.dictionary
        for which, wanted in ((TEXT, held.wants_text), (FOLDED_TEXT, held.wants_folded)):
            wanting = [number for number in numbers if wanted[number]]
            if not wanting:
                continue
            starts, lengths = np.full(len(values), -1, np.int64), np.zeros(len(values), np.int64)
            data = bytearray()
            for at, value in enumerate(values):
                if isinstance(value, str):
                    starts[at], lengths[at] = _append(data, value.casefold() if which == FOLDED_TEXT else value)
            columns.put_texts(wanting[0], which, starts, lengths, bytes(data))
            columns.rows[wanting, which] = columns.rows[wanting[0], which]


def _evaluation(views: Sequence[Shown]) -> Evaluation:
    return lambda filter, work: decide(filter, views, work)


def _blank_row(numbers: Array, room: int) -> Row:
    """No code and no bounds for these numbers, then room for numbers that are true."""
    row = Row(np.zeros(4 * room, np.int64), len(numbers), room)
    row.words[: len(numbers)] = numbers
    row.words[room + len(numbers) : 2 * room] = Kind.BOOL
    return row


def _alike(layouts: Sequence[tuple[_Layout, list[int]]]) -> dict[tuple[str | None, ...], list[int]]:
    """Aliases that stand for the same attribute in every layout: the attribute in each, and the numbers."""
    names: dict[int, list[str | None]] = {}
    for at, (layout, _) in enumerate(layouts):
        for column in layout.columns:
            for number in column.numbers:
                names.setdefault(number, [None] * len(layouts))[at] = column.name
    found: dict[tuple[str | None, ...], list[int]] = {}
    for number, signature in names.items():
        found.setdefault(tuple(signature), []).append(number)
    return found


def cell_of(value: Value) -> Cell:
    """What a value's row is made of."""
    if type(value) is float:
        return (value, Kind.NUMBER, value, value) if value == value else (None, NAN, 0.0, 0.0)
    if type(value) is str:
        return value, Kind.STRING, 0.0, 0.0
    if type(value) is bool:
        return key_of(value), Kind.BOOL, 0.0, 0.0
    if isinstance(value, datetime):
        return in_utc(value), Kind.TIME, *bracket(microseconds(value))
    return value, Kind.NUMBER, *bracket(value)  # type: ignore[arg-type]  # what is left is a number


def _append(data: bytearray, text: str) -> tuple[int, int]:
    start = len(data)
    data += text.encode(errors="surrogatepass")
    return start, len(data) - start


def _append_text(data: bytearray, value: str, wanted: Sequence[tuple[int, bool, bool]]) -> list[int]:
    """Rows of the texts of a value: one for each alias, all with the same bytes."""
    plain = _append(data, value) if any(one[1] for one in wanted) else (-1, 0)
    folded = _append(data, value.casefold()) if any(one[2] for one in wanted) else (-1, 0)
    rows: list[int] = []
    for number, wants_plain, wants_folded in wanted:
        rows += (number, *(plain if wants_plain else (-1, 0)), *(folded if wants_folded else (-1, 0)))
    return rows
