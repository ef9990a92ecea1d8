"""The arrays that kernels see, in groups: of store and registry, of events, and the work space of each matcher.

Work space grows with the index and is used again and again. Kernels leave it as they want to find it; who makes an
array bigger fills it with what means "nothing".
"""

from __future__ import annotations

import numpy as np

from recado.matching.dictionary import ABSENT
from recado.matching.kernels.arrays import ArrayField, Arrays, opener
from recado.matching.kernels.dense import BLOCK, TREE_WORDS
from recado.matching.kernels.postings import LEVELS_AT_MOST

TEXT_PAIRS = 1 << 18
"""How many pairs of a list and an event, found by text, are grouped at a time."""


class StoreArrays(Arrays):
    """Programs, lists and what is known of constants and attributes; ``recado.matching.store`` says how they change.

    ``floats``, ``ints`` and ``bytes_`` are the words seen as other types, ``matrix_floats`` the words of the matrices.
    """

    words = ArrayField(np.int64)
    floats = ArrayField(np.float64)
    ints = ArrayField(np.int32)
    bytes_ = ArrayField(np.uint8)
    starts = ArrayField(np.int32)
    lists = ArrayField(np.int32, 2)
    postings = ArrayField(np.int32, 2)
    heads = ArrayField(np.int32)
    table = ArrayField(np.int64, 2)
    state = ArrayField(np.int64)
    grids = ArrayField(np.int32, 2)
    bounds = ArrayField(np.float64)
    attributes = ArrayField(np.int64, 2)
    by_constant = ArrayField(np.int32)
    hits = ArrayField(np.int64)
    scratch = ArrayField(np.int32)
    matrices = ArrayField(np.int64)
    matrix_floats = ArrayField(np.float64)


class RegistryArrays(Arrays):
    """Of the registry (``recado.matching.registry``) what the names of matching subscriptions need.

    ``text`` has room for the ids that one event finds.
    """

    offsets = ArrayField(np.uint32)
    pool = ArrayField(np.uint8)
    members = ArrayField(np.int32, 2)
    blocks = ArrayField(np.int32)
    text = ArrayField(np.uint8)


class EventArrays(Arrays):
    """One event (``recado.matching.rows``); ``floats`` are the words seen as these."""

    words = ArrayField(np.int64)
    floats = ArrayField(np.float64)
    texts = ArrayField(np.int64, 2)
    data = ArrayField(np.uint8)


class Blank(Arrays):
    """Work space of the kernel for one event, blank between events: it is never cleared.

    ``counts`` are entries found, entries uncertain, the candidates of all events, and the last number that was given
    to an event.
    """

    codes = ArrayField(np.int32)
    numbers = ArrayField(np.float64, 2)
    texts = ArrayField(np.int64, 2)
    stamps = ArrayField(np.int64)
    marks = ArrayField(np.int64)
    found = ArrayField(np.int32)
    uncertain = ArrayField(np.int32)
    counts = ArrayField(np.int64)
    places = ArrayField(np.int64)

    def __init__(self) -> None:
        super().__init__()
        self.codes = np.zeros(0, np.int32)
        self.numbers = np.zeros((0, 4))
        self.texts = np.zeros((0, 4), np.int64)
        self.stamps = np.zeros(0, np.int64)
        self.marks = np.zeros(0, np.int64)
        self.found = np.zeros(0, np.int32)
        self.uncertain = np.zeros(0, np.int32)
        self.counts = np.zeros(4, np.int64)
        self.places = np.zeros(0, np.int64)

    def fit(self, attributes: int, entries: int, lists: int, places: int) -> None:
        if attributes > len(self.codes):
            self.codes = np.full(attributes, ABSENT, np.int32)
            self.numbers = np.full((attributes, 4), np.nan)
            self.texts = np.full((attributes, 4), -1, np.int64)
        if entries > len(self.stamps):
            room = entries + entries // 2 + 64
            self.stamps = np.zeros(room, np.int64)
            self.found = np.zeros(room, np.int32)
            self.uncertain = np.zeros(room, np.int32)
        if lists > len(self.marks):
            self.marks = np.zeros(lists + lists // 2, np.int64)
        if places > len(self.places):
            self.places = np.zeros(places, np.int64)


class Batch(Arrays):
    """Events in columns (``verify_columns``); ``is_exact`` says that ``downs`` and ``ups`` are one array.

    ``by_event`` is ``downs`` with the numbers of each event side by side, where matrices need it.
    """

    rows = ArrayField(np.int32, 2)
    codes = ArrayField(np.int32, 2)
    downs = ArrayField(np.float64, 2)
    ups = ArrayField(np.float64, 2)
    starts = ArrayField(np.int64, 2)
    lengths = ArrayField(np.int64, 2)
    data = ArrayField(np.uint8)
    by_event = ArrayField(np.float64, 2)

    def __init__(self, size: int, is_exact: bool) -> None:
        super().__init__()
        self.size, self.is_exact = size, is_exact


class Space(Arrays):
    """Work space of the batch kernel; ``counts`` are the candidates verified and the blocks of events seen.

    ``codes``, ``downs`` and ``ups`` hold columns of a block of events side by side, ``mask`` and ``other`` (a row of
    ``masks``) what is known of each of them.
    """

    counts = ArrayField(np.int64)
    tally = ArrayField(np.int32)
    found_events = ArrayField(np.int32)
    found = ArrayField(np.int64)
    events = ArrayField(np.int32)
    work = ArrayField(np.int32)
    ranks = ArrayField(np.int32)
    touched = ArrayField(np.int32, 2)
    segments = ArrayField(np.int32, 2)
    codes = ArrayField(np.int32, 2)
    downs = ArrayField(np.float64, 2)
    ups = ArrayField(np.float64, 2)
    stamps = ArrayField(np.int64, 2)
    mask = ArrayField(np.uint8)
    mask_words = ArrayField(np.int64)
    masks = ArrayField(np.uint8, 2)
    other = ArrayField(np.uint8)
    waiting = ArrayField(np.uint8)
    at = ArrayField(np.int64)
    pairs = ArrayField(np.int32, 2)
    list_touched = ArrayField(np.int32, 2)
    list_tally = ArrayField(np.int32)
    list_events = ArrayField(np.int32)
    list_marks = ArrayField(np.int64)
    places = ArrayField(np.int64)

    def __init__(self) -> None:
        super().__init__()
        self.counts = np.zeros(2, np.int64)
        self.tally = np.zeros(1, np.int32)
        self.found_events = np.zeros(65_536, np.int32)
        self.found = np.zeros(65_536, np.int64)
        self.events = self.work = self.ranks = self.tally
        self.touched = np.zeros((0, 2), np.int32)
        self.segments = np.zeros((0, 3), np.int32)
        self.codes = np.zeros((0, BLOCK), np.int32)
        self.downs = np.zeros((0, BLOCK))
        self.ups = np.zeros((0, BLOCK))
        self.stamps = np.zeros((2, 0), np.int64)
        self.mask = np.zeros(BLOCK + 8, np.uint8)
        self.mask_words = self.mask.view(np.int64)
        self.masks = np.zeros((TREE_WORDS + 2, BLOCK), np.uint8)
        self.other = self.masks[0]
        self.waiting = np.zeros(TREE_WORDS + 2, np.uint8)
        self.at = np.zeros(5, np.int64)
        self.pairs = np.zeros((0, 2), np.int32)
        self.list_touched = np.zeros((0, 2), np.int32)
        self.list_tally = self.list_events = self.tally
        self.list_marks = np.zeros(0, np.int64)
        self.places = np.zeros(0, np.int64)

    def fit(self, events: int, constants: int, rows: int, places: int) -> None:
        if events > len(self.touched):
            self.events, self.work, self.ranks = np.zeros((3, events), np.int32)
            self.touched = np.zeros((events, 2), np.int32)
            self.segments = np.zeros((LEVELS_AT_MOST * events + 1, 3), np.int32)
        if constants > len(self.tally):
            self.tally = np.zeros(constants, np.int32)
        if rows > len(self.codes):
            self.codes = np.zeros((rows, BLOCK), np.int32)
            self.downs, self.ups = np.zeros((rows, BLOCK)), np.zeros((rows, BLOCK))
            self.stamps = np.zeros((2, rows), np.int64)
        if places > len(self.places):
            self.places = np.zeros(places, np.int64)

    def fit_texts(self, lists: int) -> None:
        if not len(self.pairs):
            self.pairs = np.zeros((TEXT_PAIRS, 2), np.int32)
            self.list_touched = np.zeros((TEXT_PAIRS, 2), np.int32)
            self.list_events = np.zeros(TEXT_PAIRS, np.int32)
        if lists > len(self.list_tally):
            self.list_tally = np.zeros(lists, np.int32)
            self.list_marks = np.full(lists, -1, np.int64)

    def fit_found(self, count: int) -> None:
        if count > len(self.found_events):
            self.found_events = np.zeros(count, np.int32)
            self.found = np.zeros(count, np.int64)


open_store = opener(StoreArrays)
open_registry = opener(RegistryArrays)
open_event = opener(EventArrays)
open_blank = opener(Blank)
open_batch = opener(Batch)
open_space = opener(Space)
