"""JSON texts to the columns of a batch, as far as the kernel in ``recado.matching.kernels.scan`` reads them.

A ``Scanner`` belongs to one dictionary. It holds the names that the kernel looks for, and the words (strings and
booleans of attributes that filters know) that it has seen, with their codes. These are forgotten when they become many,
and whenever the dictionary changes, so a code is never older than the filters.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recado.matching.dictionary import ABSENT, Dictionary, key_of
from recado.matching.encode import encode_scalar
from recado.matching.json_texts import LONGEST_NAME, Texts
from recado.matching.kernels import scan
from recado.matching.kernels.instructions import bracket
from recado.matching.kernels.layout import Batch
from recado.matching.kernels.unaligned import PADDING
from recado.matching.kernels.verify_columns import CODE, INSTANT, NUMBER, ROW_COLUMNS
from recado.model.event import ENVELOPE
from recado.model.flat import RESERVED
from recado.model.limits import Limits
from recado.model.values import Kind, Value, microseconds

Array = NDArray[Any]
MOST_WORDS = 1 << 16
POOL_BYTES = 1 << 22
CELLS = 1 << 22
"""At most so many cells has a matrix of a batch, if its events are many."""
LONGEST_STRING, MOST_MEMBERS, DEEPEST, LONGEST_TEXT = 1 << 20, 900, 12, 1 << 21
"""What is beyond these is left to the reader of events, whatever its limits."""
SHORT = 256
"""A default id is not longer."""
_ROLES = {"id": scan.ID, "type": scan.TEXT_MEMBER, "source": scan.TEXT_MEMBER, "time": scan.TIME_MEMBER}
_SPECIAL = (*ENVELOPE, *RESERVED)


class Scanned(scan.Cells):
    """What the kernel made of texts: the columns of ``size`` events, and the numbers of the texts that it left.

    Of each event ``owners`` is the number of its text, ``ids`` where in ``data`` its id stands (negative if it has
    none) and how long it is, ``times`` its microseconds (``NO_TIME``).
    """

    def __init__(self, texts: Texts, attributes: int, rows: int, text_rows: int) -> None:
        super().__init__()
        width = texts.size
        self.size = self.seen = 0
        self.data = texts.data
        self.rows = np.zeros((max(attributes, 1), ROW_COLUMNS), np.int32)
        self.codes = np.empty((rows, width), np.int32)
        self.numbers = np.empty((rows + 1, width))
        self.ups: Array | None = None
        self.starts = np.empty((text_rows, width), np.int64)
        self.lengths = np.empty((text_rows, width), np.int64)
        self.codes[0], self.numbers[0], self.starts[0], self.lengths[0] = ABSENT, np.nan, -1, 0  # others when used
        self.ids = np.empty((width, 2), np.int64)
        self.times = np.empty(width, np.int64)
        self.owners = np.empty(width, np.int32)
        self.left = np.empty(width, np.int32)
        self.later = np.empty((2 * width + 1_024, 4), np.int64)
        self.counts = np.zeros(3, np.int64)

    @property
    def has_texts(self) -> bool:
        return len(self.starts) > 1

    def batch(self) -> Batch:
        """What the batch kernel takes."""
        batch = Batch(self.size, self.ups is None)
        batch.rows, batch.codes, batch.downs = self.rows, self.codes, self.numbers
        batch.ups = self.numbers if self.ups is None else self.ups
        batch.starts, batch.lengths, batch.data = self.starts, self.lengths, self.data
        return batch


class Scanner(scan.Memory):
    """Reads texts for one dictionary."""

    def __init__(self, dictionary: Dictionary) -> None:
        super().__init__()
        self.dictionary = dictionary
        self.names = np.zeros((64, scan.NAME_COLUMNS), np.int64)
        self.name_table = np.full(256, -1, np.int32)
        self.name_pool = np.zeros(4_096, np.uint8)
        self.limits = np.zeros(6, np.int64)
        self._pool_top = 0
        self._text_columns = 0
        self._shape = (0, 0)  # how many names the dictionary had, and how often one began to need its text
        self._row_of: dict[str, int] = {}
        for name in _SPECIAL:
            self._enter(name, -1, _ROLES.get(name, scan.LEFT))
        self.words = np.empty((MOST_WORDS, 4), np.int64)
        self.word_table = np.full(4 * MOST_WORDS, -1, np.int32)
        self.pool = np.empty(POOL_BYTES, np.uint8)
        self.word_codes = np.full(MOST_WORDS, scan.UNKNOWN_CODE, np.int32)
        self.seen = np.zeros((scan.SEEN, 2), np.int64)
        self.stack = np.zeros(DEEPEST + 2, np.int64)
        self.touched = np.zeros(MOST_MEMBERS + 1, np.int64)
        self.state = np.zeros(scan.STATE_SIZE, np.int64)
        self._looked_up = 0
        self._change = -1
        self._lookups: dict[tuple[int, Kind], tuple[int, Array, Array]] = {}

    def scan(self, texts: Texts, limits: Limits, needs_id: bool) -> Scanned:
        """The first of the texts, ``seen`` of them; the others find room in another batch.

        ``needs_id`` leaves texts without an id to the reader, as is done anyhow if filters ask for ids.
        """
        self._renew()
        known = len(self.dictionary.codes)
        rows = min(known + 1, max(MOST_MEMBERS + 2, CELLS // max(texts.size, 1)))
        scanned = Scanned(texts, known, rows, min(2 * rows, self._text_columns + 1))
        state = self.state
        state[scan.TOP] = texts.top[0]
        state[scan.PATH] = len(texts.data) - LONGEST_NAME - 16
        state[[scan.CODE_ROWS, scan.NUMBER_ROWS, scan.TEXT_ROWS]] = 1
        state[scan.LATER] = 0
        self.limits[:] = (
            min(limits.string_chars, LONGEST_STRING),
            min(limits.name_chars, LONGEST_NAME),
            min(limits.attributes, MOST_MEMBERS) if limits.name_chars >= len("source") else -1,
            min(limits.nesting, DEEPEST),
            min(limits.event_bytes, LONGEST_TEXT),
            needs_id or "id" in self.dictionary.names or limits.string_chars < SHORT,
        )
        scan.scan_texts(texts.data, texts.starts, texts.ends, self.handle, scanned.handle)
        texts.top[0] = state[scan.TOP]
        scanned.seen, scanned.size, left = scanned.counts.tolist()
        self._settle(scanned)
        scanned.left = scanned.left[:left]
        scanned.owners = scanned.owners[: scanned.size]
        return scanned

    # -- names ---------------------------------------------------------------------------------------------------------

    def _renew(self) -> None:
        """Take over what has changed in the dictionary."""
        dictionary, known = self.dictionary, len(self.dictionary.names)
        for name in islice(dictionary.names, self._shape[0], None):
            self._enter(name, dictionary.names[name], scan.PLAIN)
        if self._shape != (known, dictionary.text_changes):
            self._shape = known, dictionary.text_changes
            rows = list(map(self._row_of.__getitem__, dictionary.names))
            self._text_columns = sum(dictionary.wants_text) + sum(dictionary.wants_folded)
            self.names[rows, scan.WANTS] = np.array(dictionary.wants_text) + 2 * np.array(dictionary.wants_folded)
        full = self.state[scan.WORDS] > MOST_WORDS // 2 or self.state[scan.POOL] > POOL_BYTES // 2
        if full or self._change != dictionary.changes:
            self._change = dictionary.changes
            self._forget_words()

    def _enter(self, name: str, attribute: int, role: int) -> None:
        row = self._row_of.get(name)
        if row is not None:  # of the envelope
            self.names[row, scan.ATTRIBUTE] = attribute
            return
        row = self._row_of[name] = len(self._row_of)
        encoded = name.encode(errors="surrogatepass")
        if row >= len(self.names):
            self.names = np.concatenate((self.names, np.zeros_like(self.names)))
        while self._pool_top + len(encoded) + PADDING > len(self.name_pool):
            self.name_pool = np.concatenate((self.name_pool, np.zeros_like(self.name_pool)))
        self.name_pool[self._pool_top : self._pool_top + len(encoded)] = np.frombuffer(encoded, np.uint8)
        self.names[row] = 0, self._pool_top, len(encoded), attribute, role, 0
        self._pool_top += len(encoded)
        if 3 * (row + 1) > len(self.name_table):
            self.name_table = np.full(4 * len(self.name_table), -1, np.int32)
            scan.enter_names(0, row, self.handle)
        scan.enter_names(row, row + 1, self.handle)

    # -- codes ---------------------------------------------------------------------------------------------------------

    def _forget_words(self) -> None:
        if self.state[scan.WORDS]:
            self.word_table.fill(-1)
            self.word_codes[: self.state[scan.WORDS]] = scan.UNKNOWN_CODE
        self.state[scan.WORDS] = self.state[scan.POOL] = self._looked_up = 0

    def _settle(self, scanned: Scanned) -> None:
        """Give cells their codes, and numbers that the kernel was not sure of their values."""
        state = self.state
        code_rows, number_rows, text_rows = state[[scan.CODE_ROWS, scan.NUMBER_ROWS, scan.TEXT_ROWS]].tolist()
        scanned.codes, scanned.numbers = scanned.codes[:code_rows], scanned.numbers[:number_rows]
        scanned.starts, scanned.lengths = scanned.starts[:text_rows], scanned.lengths[:text_rows]
        if self._look_up():
            scan.settle_words(scanned.codes, scanned.size, 1, code_rows, self.word_codes)
        for which, kind in ((NUMBER, Kind.NUMBER), (INSTANT, Kind.TIME)):
            for attribute in np.flatnonzero(scanned.rows[:, which]).tolist():
                keys, codes = self._constants(attribute, kind)
                if len(keys):
                    row, number_row = scanned.rows[attribute, CODE], scanned.rows[attribute, which]
                    scan.settle_numbers(
                        scanned.codes, row, scanned.numbers, number_row, scanned.size, int(kind), keys, codes
                    )
        if state[scan.LATER]:
            self._settle_later(scanned, scanned.later[: state[scan.LATER]].tolist())

    def _look_up(self) -> bool:
        """Find the codes of words that are new; were there any?"""
        first, last = self._looked_up, int(self.state[scan.WORDS])
        if first == last:
            return False
        self._looked_up = last
        keys, starts, lengths = self.words[first:last, 1:].T.tolist()
        base = starts[0]
        pool = self.pool[base : self.state[scan.POOL]].tobytes()
        dictionary = self.dictionary.codes
        found = []
        for key, start, length in zip(keys, starts, lengths, strict=True):
            kind = key & 3
            text = pool[start - base : start - base + length]
            value = text.decode() if kind == Kind.STRING else key_of(text == b"true")
            found.append(dictionary[key >> 2].get(value, kind))
        self.word_codes[first:last] = found
        return True

    def _constants(self, attribute: int, kind: Kind) -> tuple[Array, Array]:
        """The constants of an attribute that a float can equal, sorted, and their codes."""
        version = self.dictionary.versions[attribute]
        kept = self._lookups.get((attribute, kind))
        if kept is None or kept[0] != version:
            pairs = sorted(_exact_floats(self.dictionary.codes[attribute].items(), kind))
            keys = np.array([key for key, _ in pairs], np.float64)
            kept = self._lookups[attribute, kind] = version, keys, np.array([code for _, code in pairs], np.int32)
        return kept[1], kept[2]

    def _settle_later(self, scanned: Scanned, later: list[list[int]]) -> None:
        for attribute, event, start, length in later:
            text = scanned.data[start : start + length].tobytes()
            number: Value = int(text) if text.lstrip(b"-").isdigit() else float(text)
            code, down, up = encode_scalar(self.dictionary.codes[attribute], number)
            row = scanned.rows[attribute, NUMBER]
            scanned.codes[scanned.rows[attribute, CODE], event] = code
            scanned.numbers[row, event] = down
            if down != up and scanned.ups is None:
                scanned.ups = scanned.numbers.copy()
            if scanned.ups is not None:
                scanned.ups[row, event] = up


def _exact_floats(constants: Iterable[tuple[Any, int]], kind: Kind) -> Iterable[tuple[float, int]]:
    for key, code in constants:
        if code & 3 == kind:
            number = microseconds(key) if kind is Kind.TIME else key
            if bracket(number)[0] == number:
                yield float(number), code
