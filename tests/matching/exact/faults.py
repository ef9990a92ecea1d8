"""Faults planted in the kernels, the builder, the dictionary and the encoder, each named by what goes wrong.

The kernels run as plain Python here (NUMBA_DISABLE_JIT), so any of their functions can be replaced, and their sizes
are tiny (``tiny``): two entries make a long list, two events a crowd, eight a block, eight results fill the room. So a
hundred filters go through what thousands go through in machine code, and the comparison is that of ``test_exact``.

    NUMBA_DISABLE_JIT=1 python -m matching.exact.faults     a JSON line for each fault: which way found it

A fault takes the place of a function and is given the real one; it does not know how the function is written.
"""

from __future__ import annotations

import random
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

import msgspec
import numpy as np

from matching.exact.check import SMALL, expected, long_lists
from matching.exact.generator import events, subscriptions
from matching.exact.ways import TYPED, WAYS

Wrong = Callable[..., Any]
FAULTS: dict[str, Callable[[Planter], None]] = {}
SEEDS = range(3)
PATIENCE_SECONDS = 120.0
"""Of processor time; a fault may well make a loop endless, which counts as found."""


class Planter:
    """Puts faults in, and takes them out again."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def put(self, owner: Any, name: str, value: Any) -> None:
        before = getattr(owner, name)
        setattr(owner, name, value)
        self._undo.append(lambda: setattr(owner, name, before))

    def function(self, place: str, wrong: Wrong) -> None:
        """``place`` is module:function below recado, or module:Class.method; ``wrong`` gets the real one first."""
        module_name, _, path = place.partition(":")
        module = owner = import_module(f"recado.{module_name}")
        *classes, name = path.split(".")
        for one in classes:
            owner = getattr(owner, one)
        real = getattr(owner, name)

        def planted(*arguments: Any, **named: Any) -> Any:
            return wrong(real, *arguments, **named)

        if classes:
            self.put(owner, name, planted)
            for table in [table for table in vars(module).values() if isinstance(table, dict)]:
                for key in [key for key, value in table.items() if value is real]:  # a table of methods by node kind
                    table[key] = planted
                    self._undo.append(lambda table=table, key=key: table.__setitem__(key, real))
        else:
            self.everywhere(real, planted)

    def everywhere(self, real: Any, other: Any) -> None:
        for module in list(sys.modules.values()):
            if getattr(module, "__name__", "").startswith("recado."):
                for name in [name for name, value in list(vars(module).items()) if value is real]:
                    self.put(module, name, other)

    def undo(self) -> None:
        while self._undo:
            self._undo.pop()()


def fault(name: str) -> Callable[[Callable[[Planter], None]], Callable[[Planter], None]]:
    def enter(plant: Callable[[Planter], None]) -> Callable[[Planter], None]:
        assert name not in FAULTS
        FAULTS[name] = plant
        return plant

    return enter


def simple(name: str, place: str, wrong: Wrong) -> None:
    """A fault that replaces one function."""
    FAULTS[name] = lambda planter: planter.function(place, wrong)


# -- the dictionary: who holds a constant, and which values are equal


@fault("a constant goes as soon as one of its holders lets go")
def _(planter: Planter) -> None:
    def release(real, self, codes):
        codes = list(dict.fromkeys(codes))
        for code in codes:
            self.references[code >> 2] = 1
        return real(self, codes)

    planter.function("matching.dictionary:Dictionary.release", release)


@fault("a part that can never be true takes constants along that others hold")
def _(planter: Planter) -> None:
    compiling = []

    def compile_(real, self, filter):
        compiling.append(True)
        try:
            return real(self, filter)
        finally:
            compiling.pop()

    def release(real, self, codes):
        codes = list(dict.fromkeys(codes)) if compiling else list(codes)
        if compiling:
            for code in codes:
                self.references[code >> 2] = 1
        return real(self, codes)

    planter.function("matching.program:Compiler.compile", compile_)
    planter.function("matching.dictionary:Dictionary.release", release)


simple("true and 1 are one constant", "matching.dictionary:key_of", lambda real, value: value)
simple(
    "1 and 1.0 are two constants",
    "matching.dictionary:key_of",
    lambda real, value: ("float", value) if type(value) is float else real(value),
)
simple(
    "a constant's number is given to two",
    "matching.dictionary:Dictionary._enter",
    lambda real, self, attribute, key, kind: (
        real(self, attribute, key, kind) if len(self._keys) < 40 else 39 << 2 | kind
    ),
)
simple(
    "what was looked up once is never looked up again",
    "matching.encode:Encoder._lookup",
    lambda real, self, attribute, family: (
        self._lookups[attribute, family][1] if (attribute, family) in self._lookups else real(self, attribute, family)
    ),
)


# -- the compiler


simple(
    "a negation is lost",
    "matching.program:Compiler._literal",
    lambda real, self, node, negated: real(self, node, False),
)
simple(
    "strict bounds belong to the range",
    "matching.program:Compiler._range",
    lambda real, self, node, op, low, high, *strict: real(self, node, op, low, high, False, False),
)
simple("of two ranges on a name the first counts", "matching.program:_intersection", lambda real, left, right: left)
simple(
    "a set forgets its last value",
    "matching.program:Compiler.compile_in",
    lambda real, self, node: real(self, msgspec.structs.replace(node, values=node.values[:-1])),
)


@fault("an empty set holds for everybody")
def _(planter: Planter) -> None:
    def set_(real, self, node):
        tests = real(self, node)
        if not node.values:
            tests[0].flags ^= 1 << 6
        return tests

    planter.function("matching.program:Compiler.compile_in", set_)


simple(
    "a pattern that ignores case keeps its own",
    "matching.program:Compiler.compile_text",
    lambda real, self, node: real(self, msgspec.structs.replace(node, pattern=node.pattern.upper())),
)


@fault("two tests that the kernel does not know count as one")
def _(planter: Planter) -> None:
    def opaque(real, self, node):
        leaf = real(self, node)
        leaf.payload = (0, 0)
        return leaf

    planter.function("matching.program:Compiler._opaque_leaf", opaque)


simple(
    "filters that begin alike count as equal",
    "matching.program:Program.digest",
    lambda real, self: (self.words[0], self.words[1] if len(self.words) > 1 else 0),
)
simple(
    "only one branch of an or leads to the filter",
    "matching.program:access_set",
    lambda real, tree: (real(tree) or [])[:1] or None,
)


@fault("a negated test leads to its filter")
def _(planter: Planter) -> None:
    def leaf_access(real, leaf):
        found = real(leaf)
        return (0.0, [leaf]) if found is None and leaf.op in (0, 2, 3) else found

    planter.function("matching.program:_leaf_access", leaf_access)


@fault("a tree forgets the last of three parts")
def _(planter: Planter) -> None:
    def tree(real, self, node, negated):
        if len(getattr(node, "parts", ())) > 2:
            node = msgspec.structs.replace(node, parts=node.parts[:-1])
        return real(self, node, negated)

    planter.function("matching.program:Compiler._tree", tree)


simple(
    "what is not true of a flag is true of it",
    "matching.program:Compiler._compare",
    lambda real, self, name, op, value: real(self, name, "==" if op == "!=" and value is True else op, value),
)
simple(
    "a range of strings has no end",
    "matching.program:Compiler.compile_between",
    lambda real, self, node: real(self, node)[:1],
)


# -- access paths and lists


@fault("a test that moves to the front takes the end of the program along")
def _(planter: Planter) -> None:
    def move_front(real, store, pc, best):
        was_last = store.words[best] & 128
        real(store, pc, best)
        store.words[pc] |= was_last

    planter.function("matching.kernels.access:_move_front", move_front)


@fault("a range counts as verified where its list is found")
def _(planter: Planter) -> None:
    def begin(real, words, pc):
        word = words[pc]
        if word & 63 == 4 and word & 512 and not word & 256:
            return -1 if word & 128 else pc + 3
        return real(words, pc)

    planter.function("matching.kernels.access:begin", begin)


@fault("the last cell that a range touches is left out")
def _(planter: Planter) -> None:
    def cells(real, store, conjunction, at, number, count):
        after = real(store, conjunction, at, number, count)
        return after - 1 if after - count > 1 else after

    planter.function("matching.kernels.access:_cells", cells)


@fault("one level of cells is not looked at")
def _(planter: Planter) -> None:
    def cells(real, store, conjunction, at, number, count):
        after = real(store, conjunction, at, number, count)
        store.lists[number, 4] &= ~2
        return after

    planter.function("matching.kernels.access:_cells", cells)


simple(
    "an entry with several paths is not marked as such",
    "matching.kernels.access:targets",
    lambda real, store, pc: abs(real(store, pc)),
)


@fault("the end of a string is looked for at its beginning")
def _(planter: Planter) -> None:
    def fragment(real, op, bytes_, at, length, attribute):
        part, start, size = real(op, bytes_, at, length, attribute)
        return (part, at, size) if part % 3 == 1 else (part, start, size)

    planter.function("matching.kernels.access:fragment", fragment)


@fault("nobody looks for fragments of one length")
def _(planter: Planter) -> None:
    def targets(real, store, conjunction, at, count):
        after = real(store, conjunction, at, count)
        store.attributes[:, 3:] &= ~(1 << 1)
        return after

    planter.function("matching.kernels.access:_targets_of_test", targets)


simple("who is removed stays in the lists", "matching.kernels.access:unlink", lambda real, *arguments: True)


@fault("with one posting another goes")
def _(planter: Planter) -> None:
    def take_out(real, lists, postings, number, entry, *rest):
        real(lists, postings, number, entry, *rest)
        if lists[number, 1] > 1:
            lists[number, 1] -= 1

    planter.function("matching.kernels.postings:take_out", take_out)


@fault("a table that grows forgets keys")
def _(planter: Planter) -> None:
    def copy(real, source, target, state):
        kept = source.copy()
        kept[::3] = 0
        real(kept, target, state)

    planter.function("matching.kernels.postings:table_copy", copy)


@fault("a block of postings is given to two lists")
def _(planter: Planter) -> None:
    def release(real, postings, heads, start, capacity):
        real(postings, heads, start, capacity)
        postings[start, 0] = start

    planter.function("matching.kernels.postings:release_block", release)


simple(
    "a rank is one too low",
    "matching.kernels.access:rank_of",
    lambda real, bounds, start, count, value: max(0, real(bounds, start, count, value) - (value > 100)),
)


# -- verification, one event


def _code_test(real, op, code, argument):
    return code >= 0 and code != argument if op == 1 else real(op, code, argument)


simple("what is of another kind differs", "matching.kernels.verify_event:code_test", _code_test)
simple(
    "NaN is absent",
    "matching.kernels.verify_event:code_test",
    lambda real, op, code, argument: code >= 0 if op == 3 else real(op, code, argument),
)
simple(
    "a number between two floats is compared by the wrong one",
    "matching.kernels.verify_event:range_test",
    lambda real, word, low, high, down, up: real(word, low, high, up, down),
)
simple(
    "a set is searched up to its last value",
    "matching.kernels.verify_event:in_set",
    lambda real, codes, at, count, code: real(codes, at, count - 1, code),
)


@fault("of two strings that begin alike none is greater")
def _(planter: Planter) -> None:
    def compare(real, data, at, length, words, pattern, size):
        common = min(length, size)
        return real(data, at, common, words, pattern, common)

    planter.function("matching.kernels.texts:compare_text", compare)


simple(
    "the end of a string is compared with its beginning",
    "matching.kernels.texts:text_test",
    lambda real, op, *arguments: real(6 if op == 7 else op, *arguments),
)
simple(
    "a search stops one place too early",
    "matching.kernels.texts:contains",
    lambda real, data, at, length, *pattern: real(data, at, length - 1, *pattern),
)
simple("a question mark stands for a byte", "matching.kernels.texts:next_character", lambda real, data, at, end: at + 1)
simple("what the kernel cannot decide holds", "filters.evaluate:evaluate", lambda real, filter, view: True)
simple("what the kernel cannot decide fails", "filters.evaluate:evaluate", lambda real, filter, view: False)


@fault("an attribute of the event before is still there")
def _(planter: Planter) -> None:
    from recado.matching.kernels.layout import open_blank, open_event

    def match_event(real, store, blank, event, size, room, *rest):
        counts = real(store, blank, event, size, room, *rest)
        if size > 2:
            words = open_event(event).words
            open_blank(blank).codes[int(words[size - 1])] = int(words[room + size - 1])
        return counts

    planter.function("matching.kernels.single:match_event", match_event)


# -- batches


@fault("events without a value are overwritten")
def _(planter: Planter) -> None:
    def rank_events(real, events, first, last, *rest):
        before = events[first:last].copy()
        kept = real(events, first, last, *rest)
        events[kept:last] = before[kept - first :]
        return kept

    planter.function("matching.kernels.columns:rank_events", rank_events)


@fault("a group loses its last event")
def _(planter: Planter) -> None:
    def group(real, row, batch, size, store, space):
        groups = real(row, batch, size, store, space)
        if groups:
            key = space.touched[groups - 1, 0]
            first = space.tally[space.touched[groups - 2, 0]] if groups > 1 else 0
            space.tally[key] = max(first, space.tally[key] - 1)
        return groups

    planter.function("matching.kernels.columns:group_by_constant", group)


@fault("events of equal fragments get mixed up")
def _(planter: Planter) -> None:
    def group(real, space, count):
        groups = real(space, count)
        space.list_events[:count] = np.roll(space.list_events[:count], 1)
        return groups

    planter.function("matching.kernels.columns:group_by_list", group)


def _gather(real, row, batch, *rest):
    space = next(one for one in rest if hasattr(one, "stamps"))
    if not space.stamps[:, row].any():
        real(row, batch, *rest)


simple("codes gathered for another list are used again", "matching.kernels.dense:gather_codes", _gather)
simple("numbers gathered for another list are used again", "matching.kernels.dense:gather_numbers", _gather)


@fault("events that meet at a test push each other out")
def _(planter: Planter) -> None:
    def move(real, masks, waiting, row, jump, mask, flip, size):
        if jump not in (0, 0xFFFFFFFF):
            waiting[row + jump] = 0
        real(masks, waiting, row, jump, mask, flip, size)

    planter.function("matching.kernels.dense:move", move)


@fault("what lies behind the end of a block counts")
def _(planter: Planter) -> None:
    def count_set(real, space, size):
        total = real(space, size)
        space.mask[size : (size + 7) & ~7] = 1
        return total

    planter.function("matching.kernels.dense:count_set", count_set)


simple(
    "in a block what is in doubt is taken for sure",
    "matching.kernels.verify_columns:narrow",
    lambda real, *arguments: abs(real(*arguments)),
)


@fault("the run of a cell ends too early")
def _(planter: Planter) -> None:
    def segments(real, number, first, last, store, batch, events, space):
        count = real(number, first, last, store, batch, events, space)
        if count > 1 and space.segments[count - 1, 2] - space.segments[count - 1, 1] > 1:
            space.segments[count - 1, 2] -= 1
        return count

    planter.function("matching.kernels.columns:segments_of", segments)


@fault("results that find no room are lost")
def _(planter: Planter) -> None:
    def match_columns(real, store, batch, space, *rest):
        from recado.matching.kernels.layout import open_space

        return min(real(store, batch, space, *rest), len(open_space(space).found))

    planter.function("matching.kernels.columns:match_columns", match_columns)


@fault("fragments go on at the wrong place when the room is full")
def _(planter: Planter) -> None:
    def collect(real, attribute, folded, store, batch, size, space):
        count = real(attribute, folded, store, batch, size, space)
        if count == len(space.pairs):
            space.at[3] += 1
        return count

    planter.function("matching.kernels.columns:collect_fragments", collect)


@fault("an entry counts for the first of its events only")
def _(planter: Planter) -> None:
    def distinct(real, *arguments):
        owners, kept = real(*arguments)
        _, firsts = np.unique(kept, return_index=True)
        return owners[np.sort(firsts)], kept[np.sort(firsts)]

    planter.function("matching.kernels.columns:distinct", distinct)


simple(
    "subscriptions that share a filter are read from the wrong place",
    "matching.kernels.columns:sort_by_event",
    lambda real, events, entries, members, blocks, size: real(events, entries, members, np.roll(blocks, 1), size),
)


@fault("the test of a set in a block leaves out its last value")
def _(planter: Planter) -> None:
    def dense_test(real, store, pc, word, *rest):
        if word & 63 == 2 and (word >> 32) & 0xFFFFFFFF > 1:
            word -= 1 << 32
        return real(store, pc, word, *rest)

    planter.function("matching.kernels.dense:dense_test", dense_test)


# -- subscriptions and their ids


@fault("an id that goes hides others")
def _(planter: Planter) -> None:
    def drop_id(real, table, at, *rest):
        table[at] = -1

    planter.function("matching.registry:drop_id", drop_id)


@fault("who leaves a shared filter takes another's place")
def _(planter: Planter) -> None:
    def leave(real, self, slot):
        entry, left = real(self, slot)
        if left > 1:
            self.blocks[int(self.members[entry, 1])] = slot
        return entry, left

    planter.function("matching.registry:Registry.leave", leave)


@fault("a block of subscriptions that moves leaves one behind")
def _(planter: Planter) -> None:
    def move(real, self, count, at, size):
        start = real(self, count, at, size)
        if count > 1:
            self.blocks[start + count - 1] = self.blocks[start]
        return start

    planter.function("matching.registry:Registry._move_block", move)


# -- matrices


simple("a posting moves without its bits", "matching.kernels.matrix:move_bits", lambda real, *arguments: None)
simple(
    "a free place keeps the bits of what was there",
    "matching.kernels.matrix:write_bits",
    lambda real, store, head, place, pc, value: None if value else real(store, head, place, pc, value),
)
simple(
    "an event takes the row of the next bin",
    "matching.kernels.matrix:row_of",
    lambda real, floats, edges, count, bits, size, value: real(floats, edges, count, bits, size, value) + size,
)
simple(
    "a matrix forgets the last posting of its list",
    "matching.kernels.matrix:join_rows",
    lambda real, store, head, length, *rest: real(store, head, length - 1, *rest),
)
simple(
    "all events of a batch take the rows of the first",
    "matching.kernels.matrix:join_rows",
    lambda real, store, head, length, which, places: real(store, head, length, 0, places),
)
simple(
    "what a matrix leaves of a batch is not verified", "matching.kernels.matrix:pass_ranges_at", lambda real, *rest: -1
)
simple("what a matrix leaves is not verified", "matching.kernels.matrix:pass_ranges", lambda real, *rest: -1)


# -- snapshots


simple(
    "a snapshot forgets filters that the kernel does not know",
    "matching.index:_header",
    lambda real, *arguments: msgspec.structs.replace(real(*arguments), opaque={}),
)
simple(
    "a snapshot forgets that text is looked into",
    "matching.index:_header",
    lambda real, index, arrays: msgspec.structs.replace(
        real(index, arrays), wants_text=[False] * len(index.dictionary.wants_text)
    ),
)


# -- columns


simple(
    "a column that was cut begins at its first row",
    "matching.kernels.cells:validity",
    lambda real, array: (real(array)[0], 0),
)
simple(
    "an empty type is a type",
    "matching.encode:Encoder._put_strings",
    lambda real, self, columns, name, attribute, array: real(self, columns, "x", attribute, array),
)
simple(
    "integers are their nearest floats",
    "matching.kernels.cells:encode_integers",
    lambda real, *arguments: bool(real(*arguments)) or True,
)


@fault("an integer of a column is one more")
def _(planter: Planter) -> None:
    def encode(real, bits, first, values, table, keys, *rest):
        return real(bits, first, values, table, keys + 1 if len(keys) else keys, *rest)

    planter.function("matching.kernels.cells:encode_integers", encode)


simple(
    "values of an event take the kind of the first",
    "matching.encode:encode_scalar",
    lambda real, codes, value: real(codes, int(value) if type(value) is bool else value),
)
simple(
    "missing text is the empty text",
    "matching.encode:Columns.put_texts",
    lambda real, self, attribute, which, starts, lengths, data: real(
        self, attribute, which, np.maximum(starts, 0), lengths, data
    ),
)


# -- looking for them


@contextmanager
def tiny() -> Iterator[None]:
    """Sizes at which a hundred filters and some tens of events meet every branch."""
    planter = Planter()
    sizes = {"FEW": 2, "BLOCK": 8, "TEXT_PAIRS": 16, "SMALL_SET": 3, "MANY_LEFT": 4}
    for module in [module for name, module in list(sys.modules.items()) if name.startswith("recado.matching")]:
        for name, size in sizes.items():
            if hasattr(module, name):
                planter.put(module, name, size)
    from recado.matching.kernels import layout

    def init(real, self):
        real(self)
        self.found_events, self.found = np.zeros(8, np.int32), np.zeros(8, np.int64)

    planter.function("matching.kernels.layout:Space.__init__", init)
    assert layout.BLOCK == 8
    try:
        with long_lists(SMALL):
            yield
    finally:
        planter.undo()


class HangsError(Exception):
    """It took too long."""


def _give_up(*_: Any) -> None:
    raise HangsError


FIRST = ["one by one, single", "with changes, Arrow batches of 64", "with changes, batches of 1,000", "saved, single"]
"""Between them these find nearly all, so they are tried first."""
Case = tuple[str, Any, list[Any], list[Any], Any]


def cases() -> list[Case]:
    """Ways with the subscriptions, events and truths to try them on; worked out before anything is planted."""
    made: list[Case] = []
    for seed in SEEDS:
        rng = random.Random(500 + seed)
        some = subscriptions(rng, 200)
        for ways, mixed in ((WAYS, True), (TYPED, False)):
            them = events(rng, 50, mixed=mixed, arrays=mixed)
            right = expected(some, them)
            made += [(name, way, some, them, right) for name, way in ways.items()]
    return sorted(made, key=lambda case: case[0] not in FIRST)


def hunt(made: list[Case]) -> str:
    """The first way that goes wrong; empty if none does."""
    for name, way, some, them, right in made:
        try:
            found = way(some, them)
        except HangsError:
            return f"{name}: hangs"
        except Exception as error:  # noqa: BLE001  # a crash is found as well
            return f"{name}: {type(error).__name__}"
        if not np.array_equal(found, right):
            return name
    return ""


def main(names: list[str]) -> None:
    """All faults, or some, which only the first ways then look for; each of these finds nothing where nothing is."""
    signal.signal(signal.SIGPROF, _give_up)
    made = [case for case in cases() if not names or case[0] in FIRST]
    with tiny(), np.errstate(over="ignore"):
        for name in ["nothing", *(names or FAULTS)]:
            planter = Planter()
            FAULTS.get(name, lambda _: None)(planter)
            signal.setitimer(signal.ITIMER_PROF, PATIENCE_SECONDS)
            with suppress(HangsError):
                found = "hangs"
                found = hunt(made[: len(FIRST)] if names and name == "nothing" else made)
            signal.setitimer(signal.ITIMER_PROF, 0)
            planter.undo()
            sys.stdout.write(msgspec.json.encode({"fault": name, "found": found}).decode() + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
