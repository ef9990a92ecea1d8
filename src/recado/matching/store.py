"""The compiled entries and their lists: flat arrays that grow, and the operations that keep them together.

An *entry* is one distinct filter. ``link`` hangs it into the lists that its access paths lead to, ``unlink`` takes it
out again; both cost what the entry's own lists cost and never touch the rest. ``optimize`` looks at all entries again:
it orders the bounds of ranges into grids, chooses every access path anew from what was seen of events, and splits long
lists. It runs when the number of entries has doubled since the last time, so it costs little per entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recado.matching.dictionary import Dictionary
from recado.matching.kernels import access, matrix, upkeep
from recado.matching.kernels.instructions import ACCESS, EQ, IN, JUMPS, LAST, NE, instruction_words
from recado.matching.kernels.layout import StoreArrays
from recado.matching.kernels.postings import (
    CAPACITY,
    CELL,
    GRID,
    GRID_BOUNDS,
    LENGTH,
    LIST_COLUMNS,
    LISTS_TOP,
    MATRIX,
    POSTINGS_TOP,
    TABLE_USED,
    drop_list,
    table_copy,
)
from recado.matching.program import Program

LONG_LIST = 256
WEAK_SPLIT = 4
"""A list that is split should lead an event to less than every so many-th of its entries."""

Array = NDArray[Any]


def grown(array: Array, rows: int, fill: float | None = None) -> Array:
    """The array with room for at least ``rows`` rows; larger arrays grow by smaller factors."""
    size = len(array)
    if rows <= size:
        return array
    factor = 2.0 if size < 100_000 else 1.3
    bigger = np.empty((max(rows, int(size * factor) + 16), *array.shape[1:]), array.dtype)
    bigger[:size] = array
    bigger[size:] = 0 if fill is None else fill
    return bigger


class Store(StoreArrays):
    """All flat arrays of an index. ``arrays`` names those that a snapshot keeps."""

    arrays = (
        "words", "starts", "lists", "postings", "heads", "table", "state", "grids", "bounds", "attributes",
        "by_constant", "hits", "matrices",
    )  # fmt: skip

    def __init__(self, dictionary: Dictionary) -> None:
        super().__init__()
        self.dictionary = dictionary
        self.words = np.zeros(1024, np.int64)
        self.words_top = 0
        self.starts = np.full(64, -1, np.int32)
        self.attributes = np.zeros((16, access.ATTRIBUTE_COLUMNS), np.int64)
        self.by_constant = np.zeros(64, np.int32)
        self.hits = np.zeros(64, np.int64)
        self.grids = np.zeros((32, 2), np.int32)
        self.bounds = np.zeros(0, np.float64)
        self.events = 0
        self.entries = 0
        self.optimized_at = 0
        self._changes = 0
        self._free_words: dict[int, list[int]] = {}
        self._free_entries: list[int] = []
        self._entries_top = 0
        self.pending = 0  # so many of the last entries are not linked yet
        self.scratch = np.zeros(4096, np.int32)
        self._clear_lists()
        self.views()

    def _clear_lists(self) -> None:
        self.lists = np.zeros((64, LIST_COLUMNS), np.int32)
        self.lists[:, GRID] = -1
        self.postings = np.zeros((256, 2), np.int32)
        self.heads = np.full(32, -1, np.int32)
        self.table = np.zeros((64, 2), np.int64)
        self.state = np.zeros(4, np.int64)
        self.state[LISTS_TOP] = 1  # list 0 is ALWAYS
        self.matrices = np.zeros(matrix.FIRST, np.int64)

    def views(self) -> None:
        """The words seen as other types; to be renewed whenever the words move."""
        self.floats = self.words.view(np.float64)
        self.ints = self.words.view(np.int32)
        self.bytes_ = self.words.view(np.uint8)
        self.matrix_floats = self.matrices.view(np.float64)
        self.places = int(self.matrices[matrix.WORK])

    @property
    def capacity(self) -> int:
        """Entry numbers are below this."""
        return self._entries_top

    # -- entries

    def insert(self, program: Program) -> int:
        """A new entry for a program, linked; it takes over the constants that the program holds."""
        self._follow_dictionary()
        is_free = bool(self._free_entries)
        entry = self._free_entries.pop() if is_free else self._new_entry()
        self.starts[entry] = self._place(program.words)
        self.entries += 1
        self._changes += 1
        if is_free:
            self._link(entry, entry + 1, rechoose=True)
        else:
            self.pending += 1
            self.link_all()
        return entry

    def insert_many(self, programs: Sequence[Program]) -> Array:
        """New entries. They are linked together before the next event (``link_all``), if not by then anew with all."""
        reused = [self.insert(program) for program in programs[: len(self._free_entries)]]
        self._follow_dictionary()
        programs = programs[len(reused) :]
        first, count = self._entries_top, len(programs)
        self._entries_top += count
        self.starts = grown(self.starts, self._entries_top, -1)  # assigned, so who matches will link first
        sizes = np.fromiter((len(program.words) for program in programs), np.int64, count)
        ends = self.words_top + np.cumsum(sizes)
        self.starts[first : self._entries_top] = ends - sizes
        begin, self.words_top = self.words_top, int(ends[-1]) if count else self.words_top
        if self.words_top > len(self.words):
            self.words = grown(self.words, self.words_top)
            self.views()
        self.words[begin : self.words_top] = list(chain.from_iterable(program.words for program in programs))
        self.entries += count
        self._changes += count
        self.pending += count
        return np.concatenate((np.array(reused, np.int32), np.arange(first, self._entries_top, dtype=np.int32)))

    def link_all(self) -> None:
        """Link the entries that are not; to be called before links are followed."""
        if self.pending:
            first, self.pending = self._entries_top - self.pending, 0
            self._link(first, self._entries_top, rechoose=True)

    def delete(self, entry: int) -> None:
        """Unlink an entry and give its words and constants back."""
        self.link_all()
        pc = int(self.starts[entry])
        while not access.unlink(self.handle, entry):
            self._make_room(self._room(pc))
        codes, size = self._codes_of(pc)
        for constant in self.dictionary.release(codes):
            number = self.by_constant[constant]
            self.by_constant[constant] = 0
            self.hits[constant] = 0
            if number:
                drop_list(self.lists, self.postings, self.heads, self.state, int(number))
        self._free_words.setdefault(size, []).append(pc)
        self.starts[entry] = -1
        self._free_entries.append(entry)
        self.entries -= 1
        self._changes += 1

    def _new_entry(self) -> int:
        entry = self._entries_top
        self._entries_top += 1
        if self._entries_top > len(self.starts):
            self.starts = grown(self.starts, self._entries_top, -1)
        return entry

    def _place(self, words: list[int]) -> int:
        size = len(words)
        free = self._free_words.get(size)
        if free:
            pc = free.pop()
        else:
            pc = self.words_top
            self.words_top += size
            if self.words_top > len(self.words):
                self.words = grown(self.words, self.words_top)
                self.views()
        self.words[pc : pc + size] = words
        return pc

    def _codes_of(self, pc: int) -> tuple[list[int], int]:
        """The constants that a program refers to, and its size in words."""
        codes: list[int] = []
        at = pc
        while True:
            word = int(self.words[at])
            op, argument = word & 63, (word >> 32) & 0xFFFFFFFF
            if op in (EQ, NE):
                codes.append(argument)
            elif op == IN:
                first = 2 * (at + 1 + (1 if word & JUMPS else 0))
                codes.extend(self.ints[first : first + argument].tolist())
            at += instruction_words(word)
            if word & LAST:
                return codes, at - pc

    def _follow_dictionary(self) -> None:
        attributes = len(self.dictionary.codes)
        if attributes > len(self.attributes):
            self.attributes = grown(self.attributes, attributes)
            self.grids = grown(self.grids, 2 * len(self.attributes))
        if self.dictionary.constants > len(self.by_constant):
            self.by_constant = grown(self.by_constant, self.dictionary.constants)
            self.hits = grown(self.hits, len(self.by_constant))
        changed = self.dictionary.changed
        while changed:
            attribute = changed.pop()
            self.attributes[attribute, access.CONSTANTS] = len(self.dictionary.codes[attribute])

    # -- lists

    def _make_room(self, lists: int) -> None:
        """Room for so many new lists and table keys."""
        self.lists = grown(self.lists, int(self.state[LISTS_TOP]) + lists, 0)
        self.scratch = grown(self.scratch, lists)
        used = int(self.state[TABLE_USED]) + lists
        if used * 2 > len(self.table):
            bigger = np.zeros((1 << (used * 2).bit_length(), 2), np.int64)
            table_copy(self.table, bigger, self.state)
            self.table = bigger

    def _room(self, pc: int) -> int:
        """At most how many lists a program can need, as ``access.room`` says it."""
        needed = 1
        while True:
            word = int(self.words[pc])
            if word & ACCESS or not word & JUMPS:
                needed += 2 + 2 * ((word >> 32) & 0xFFFFFFFF if word & 63 == IN else 1)
            if word & LAST:
                return needed
            pc += instruction_words(word)

    def _link(self, entry: int, last: int, rechoose: bool) -> None:
        """Link a run of entries, growing what is too small."""
        while True:
            entry = access.link(self.handle, entry, last, self.events, rechoose)
            if entry == last:
                return
            self._make_room(self._room(int(self.starts[entry])) + len(self.lists) // 4)
            self.postings = grown(self.postings, len(self.postings) + 2 * self._longest_list() + 64)

    def _longest_list(self) -> int:
        return int(self.lists[: self.state[LISTS_TOP], CAPACITY].max())

    def wants_optimizing(self) -> bool:
        """Has the store grown or changed so much that its choices are stale?"""
        return self.entries > 2 * self.optimized_at + 1000 or self._changes > 8 * self.optimized_at + 100_000

    def optimize(self) -> None:
        """Order bounds into grids, choose every access path anew, split long lists."""
        self.pending = 0
        self._order_bounds()
        self._clear_links()
        self._link(0, self._entries_top, rechoose=True)
        votes = np.zeros((len(self.lists), 2), np.int32)
        upkeep.vote(self.handle, self._entries_top, LONG_LIST, votes)
        self._keep_whole()
        if (self.lists[: self.state[LISTS_TOP], GRID] >= 0).any():
            self._split()
        self._pack()
        self._make_matrices()
        self.optimized_at = self.entries
        self._changes = 0

    def _pack(self) -> None:
        """Lay the programs out in the order of the lists, without gaps."""
        packed = np.zeros(len(self.words), np.int64)
        moved = np.zeros(self._entries_top, np.bool_)
        self.words_top = int(upkeep.pack(self.handle, self._entries_top, moved, packed))
        self.words = packed
        self._free_words = {}
        self.views()

    def _keep_whole(self) -> None:
        """Do not split the lists whose cells would still lead an event to many entries, if a matrix leaves few."""
        visited = self.lists[:, LENGTH].astype(np.float64)
        upkeep.count_visited(self.handle, self._entries_top, visited)
        weak = (self.lists[:, GRID] >= 0) & (visited * WEAK_SPLIT > self.lists[:, LENGTH])
        plans = matrix.plan(self, np.where(weak, self._reach(), 0.0))
        self.lists[[number for number, plan in plans.items() if plan.leaves_few], GRID] = -1

    def _make_matrices(self) -> None:
        """A matrix for each list that is worth one."""
        plans = matrix.plan(self, self._reach())
        self.matrices, heads = matrix.lay_out(list(plans.values()))
        self.views()
        self.lists[list(plans), MATRIX] = heads
        for number in plans:
            matrix.fill(self.handle, number)

    def _reach(self) -> Array:
        """How likely an event comes to each list; 0 for those that all events or texts lead to, which get no matrix."""
        reach = np.zeros(len(self.lists))
        attributes, constants = np.flatnonzero(self.attributes[:, access.PRESENCE]), np.flatnonzero(self.by_constant)
        present, equal = np.ones(len(attributes)), np.full(len(constants), 0.01)
        if self.events >= access.FEW_EVENTS:
            present = self.attributes[attributes, access.PRESENT] / self.events
            equal = self.hits[constants] / self.events
        reach[self.attributes[attributes, access.PRESENCE]] = present
        reach[self.by_constant[constants]] = equal
        cells = self.table[self.table[:, 0] >= CELL]
        parents, levels = (cells[:, 0] ^ CELL) >> 24, (cells[:, 0] >> 16) & 0xFF
        ranks = self.grids[self.lists[parents, GRID], 1] + 1
        reach[cells[:, 1]] = reach[parents] * np.minimum(1.0, (1 << levels) / ranks)
        return reach

    def trim(self) -> None:
        """Give back the room that arrays keep for growth."""
        self.words = self.words[: self.words_top + 64].copy()
        self.starts = self.starts[: self._entries_top + 1].copy()
        self.lists = self.lists[: int(self.state[LISTS_TOP]) + 1].copy()
        self.postings = self.postings[: int(self.state[POSTINGS_TOP]) + 1].copy()
        self.views()

    def _split(self) -> None:
        """Link again with the grids that were voted for, list by list as they were found."""
        grid_of_constant = np.where(self.by_constant > 0, self.lists[self.by_constant, GRID], -1)
        presence = self.attributes[:, access.PRESENCE]
        grid_of_attribute = np.where(presence > 0, self.lists[presence, GRID], -1)
        self._clear_links()
        self._give_grids(self.by_constant, grid_of_constant)
        lists_of_attributes = np.zeros(len(presence), np.int64)
        self._give_grids(lists_of_attributes, grid_of_attribute)
        self.attributes[:, access.PRESENCE] = lists_of_attributes
        self._link(0, self._entries_top, rechoose=False)

    def _give_grids(self, numbers: Array, grids: Array) -> None:
        """Make the lists that are to have a grid, before anything is linked."""
        chosen = np.flatnonzero(grids >= 0)
        self._make_room(len(chosen))
        top = int(self.state[LISTS_TOP])
        made = np.arange(top, top + len(chosen))
        self.state[LISTS_TOP] += len(chosen)
        self.lists[made] = 0
        self.lists[made, GRID] = grids[chosen]
        numbers[chosen] = made

    def _clear_links(self) -> None:
        self._clear_lists()
        self.by_constant[:] = 0
        self.attributes[:, access.PRESENCE] = 0
        self.attributes[:, access.LENGTHS :] = 0

    def _order_bounds(self) -> None:
        """New grids: the quantiles of all bounds that filters ask for."""
        counts = np.zeros(len(self.grids), np.int64)
        upkeep.count_bounds(self.handle, self._entries_top, counts)
        steps = np.maximum(1, counts // (4 * GRID_BOUNDS))
        offsets = np.concatenate(([0], np.cumsum(np.minimum(counts, 4 * GRID_BOUNDS + 2))))
        sample = np.zeros(offsets[-1], np.float64)
        seen, filled = np.zeros_like(counts), np.zeros_like(counts)
        upkeep.sample_bounds(self.handle, self._entries_top, steps, seen, filled, offsets, sample)
        parts: list[Array] = []
        top = 0
        for grid in range(len(self.grids)):
            part = np.unique(sample[offsets[grid] : offsets[grid] + filled[grid]]) if filled[grid] else sample[:0]
            if len(part) > GRID_BOUNDS:
                part = part[np.linspace(0, len(part) - 1, GRID_BOUNDS).astype(np.int64)]
            self.grids[grid] = top, len(part)
            top += len(part)
            parts.append(part)
        self.bounds = np.concatenate(parts) if parts else np.zeros(0, np.float64)

    # -- for snapshots

    def free(self) -> dict[str, Any]:
        return {"words": list(self._free_words.items()), "entries": self._free_entries}

    def restore_free(self, free: dict[str, Any]) -> None:
        self._free_words = dict(free["words"])
        self._free_entries = free["entries"]

    def nbytes(self) -> int:
        return sum(getattr(self, name).nbytes for name in self.arrays)
