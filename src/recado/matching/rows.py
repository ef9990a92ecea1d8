"""One event as the kernel for single events reads it.

Its numbers lie in one flat array of words with ``room`` for so many attributes: first those attributes of the event
that some filter names, from ``room`` on the codes of their values (``recado.matching.dictionary``), from ``2 * room``
on two bounds for each value that has an order, in the order of the codes: the floats at or below and at or above it.
Beside them are the strings that filters look into.

Most events have the attribute names of the one before, and many have nothing but strings that are only compared. For
those a *form* is kept by their names. It knows where each value goes, so all of them are looked up in one call.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import partial
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recado.matching.dictionary import ABSENT, Codes, Dictionary
from recado.matching.encode import encode_scalar
from recado.matching.kernels.layout import EventArrays
from recado.matching.kernels.unaligned import PADDING
from recado.model.event import ENVELOPE, Attributes, Event
from recado.model.values import Value

Array = NDArray[Any]
FORMS = 1024
"""So many sets of names are remembered; then all are forgotten."""
PACKS = 4096
"""So many counts of attributes and bounds are remembered; then all are forgotten."""
FORM_NAMES = 64
"""Events with more names have no form."""
_LOOK_UP = dict.__getitem__
"""What ``[]`` does, without asking first whether ``Codes`` does it in another way."""
_NO_TEXTS: Array = np.zeros((0, 5), np.int64)
_NO_DATA: Array = np.zeros(0, np.uint8)


class Row(EventArrays):
    """An encoded event of ``size`` attributes; its arrays are used again and again, so they only grow.

    The first ``text_count`` rows of ``texts`` are an attribute, start and length of its string in ``data``, and of its
    casefolded string.
    """

    def __init__(self, words: Array, size: int, room: int) -> None:
        super().__init__()
        self.put_words(words)
        self.size, self.room = size, room
        self.texts, self.data, self.text_count = _NO_TEXTS, _NO_DATA, 0

    def put_words(self, words: Array) -> None:
        self.words, self.floats = words, words.view(np.float64)

    def put_texts(self, texts: list[int], data: bytearray) -> None:
        """The strings that filters look into, given as one flat list and their bytes."""
        self.text_count = len(texts) // 5
        if self.text_count > len(self.texts):
            self.texts = np.zeros((2 * self.text_count, 5), np.int64)
        if len(data) + PADDING > len(self.data):
            self.data = np.zeros(2 * len(data) + PADDING, np.uint8)
        struct.pack_into(f"{len(texts)}q", self.texts.data, 0, *texts)
        self.data.data[: len(data)] = data


class Form:
    """How events with the same names are encoded, as long as all their values are strings."""

    __slots__ = ("envelope", "known", "row", "tables", "write")

    def __init__(self, dictionary: Dictionary, attributes: Attributes, envelope: list[str]) -> None:
        numbers, codes = dictionary.names, dictionary.codes
        names = [name for name in attributes if name in numbers]
        order = [numbers[name] for name in (*names, *envelope)]
        self.row = Row(np.array(order + [ABSENT] * len(order), np.int64), len(order), len(order))
        self.known = None if len(names) == len(attributes) else [name in numbers for name in attributes]
        self.tables = [codes[number] for number in order[: len(names)]]
        self.envelope: list[tuple[str, Codes]] = [(name, codes[numbers[name]]) for name in envelope]
        buffer = self.row.words[len(order) :].data
        self.write = partial(struct.Struct(f"{len(order)}q").pack_into, buffer, 0)


class RowEncoder:
    """Encodes single events for one dictionary. A row is good until the next one is asked for."""

    def __init__(self, dictionary: Dictionary) -> None:
        self.dictionary = dictionary
        self._row = Row(np.zeros(256, np.int64), 0, 0)
        self._buffer = self._row.words.data
        self._packs: dict[tuple[int, int], Callable[..., None]] = {}
        self._forms: dict[tuple[str, ...], Form | bool] = {}  # False: seen once; True: there can be none
        self._layout = 0

    def of_strings(self, event: Event) -> Row | None:
        """The row of an event that has a form; None for all others."""
        attributes = event.attributes
        if self._layout != self.dictionary.layout_changes:
            self._layout = self.dictionary.layout_changes
            self._forms = {}
        form = self._forms.get(tuple(attributes))
        if type(form) is not Form:
            if form is not True:
                self._see(attributes, is_new=form is None)
            return None
        values = attributes.values()
        try:
            codes = map(_LOOK_UP, form.tables, values if form.known is None else compress(values, form.known))
            if form.envelope:
                fields = ((getattr(event, name), table) for name, table in form.envelope)
                form.write(*codes, *(table[text] if text else ABSENT for text, table in fields))
            else:
                form.write(*codes)
        except KeyError:  # not a string
            self._forms[tuple(attributes)] = True
            return None
        return form.row

    def _see(self, attributes: Attributes, is_new: bool) -> None:
        """Make a form for names that are seen for the second time: names that never come again should cost little."""
        if len(attributes) > FORM_NAMES:
            return
        if is_new:
            if len(self._forms) >= FORMS:
                self._forms = {}
            self._forms[tuple(attributes)] = False
            return
        dictionary = self.dictionary
        known = [name for name in ENVELOPE if name in dictionary.names]
        numbers = [dictionary.names[name] for name in (*attributes, *known) if name in dictionary.names]
        has_form = not ("id" in known or "time" in known or any(name in attributes for name in known))
        has_form = has_form and all(map(dictionary.only_compares, numbers))
        self._forms[tuple(attributes)] = not has_form or Form(dictionary, attributes, known)

    def of_view(self, view: Mapping[str, Value]) -> Row:
        """The row of a single-valued view, whatever its values are."""
        names, known = self.dictionary.names, self.dictionary.codes
        wants_text, wants_folded = self.dictionary.wants_text, self.dictionary.wants_folded
        attributes: list[int] = []
        codes: list[int] = []
        bounds: list[float] = []
        texts: list[int] = []
        data = bytearray()
        for name, value in view.items():
            attribute = names.get(name)
            if attribute is None:
                continue
            attributes.append(attribute)
            if type(value) is str:
                codes.append(known[attribute].get(value, 0))
                if wants_text[attribute] or wants_folded[attribute]:
                    texts.append(attribute)
                    texts += _append(data, value, wants_text[attribute])
                    texts += _append(data, value.casefold(), wants_folded[attribute])
            else:
                code, down, up = encode_scalar(known[attribute], value)
                codes.append(code)
                if code & 1:  # a number or an instant
                    bounds += (down, up)
        self._write(attributes, codes, bounds)
        row = self._row
        row.size = row.room = len(attributes)
        if texts or row.text_count:
            row.put_texts(texts, data)
        return row

    def _write(self, attributes: list[int], codes: list[int], bounds: list[float]) -> None:
        """Write a row into the array that is used again and again: a new one would take longer."""
        form = len(attributes), len(bounds)
        pack = self._packs.get(form)
        if pack is None:
            if len(self._packs) >= PACKS:
                self._packs.clear()
            pack = self._packs[form] = struct.Struct(f"{2 * len(attributes)}q{len(bounds)}d").pack_into
            count = 2 * len(attributes) + len(bounds)
            if count > len(self._row.words):
                self._row.put_words(np.zeros(2 * count, np.int64))
                self._buffer = self._row.words.data
        pack(self._buffer, 0, *attributes, *codes, *bounds)


def _append(data: bytearray, text: str, wanted: bool) -> tuple[int, int]:
    if not wanted:
        return -1, 0
    start = len(data)
    data += text.encode(errors="surrogatepass")
    return start, len(data) - start
