"""The index: millions of subscriptions, matched without looking at most of them.

``add`` brings a filter to its key; subscriptions with equal filters share one entry. The entry's program
(``program``) hangs in the lists of its most selective test (``access``, ``postings``); an event visits the lists that
its values lead to and verifies what it finds there (``single``, ``kernel``). What the kernel cannot decide, it leaves
to the plain evaluator, so the result is always the oracle's.

Subscriptions come and go at any time; a lock makes every call whole, so threads may share an index.
"""

from __future__ import annotations

import mmap
import os
import platform
import struct
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from recado import files
from recado.errors import RecadoError
from recado.filters import expression
from recado.filters.cost import check_filter
from recado.filters.evaluate import evaluate
from recado.filters.expression import format_expression
from recado.matching.dictionary import Dictionary
from recado.matching.encode import Columns, Encoder
from recado.matching.json_texts import Texts
from recado.matching.kernels.columns import distinct, match_columns
from recado.matching.kernels.jit import of_numbers
from recado.matching.kernels.layout import Blank, Space
from recado.matching.kernels.single import CANDIDATES, NO_IDS, STAMP, match_event
from recado.matching.program import Compiler, Program
from recado.matching.registry import Registry
from recado.matching.rows import Row, RowEncoder
from recado.matching.scanner import Scanned, Scanner
from recado.matching.soundness import check_registry, check_store
from recado.matching.store import Store
from recado.model.event import Event, expansions, only_view
from recado.model.filter import Filter
from recado.model.limits import Limits
from recado.model.memory import Memo
from recado.model.subscription import Subscription, check_id
from recado.model.values import Value

Array = NDArray[Any]
AT_A_TIME = 128
"""How many subscriptions ``add_many`` takes through each step together."""
MANY = 16
"""So many are worth the steps that do it for all of them at once."""
Given = tuple[tuple[str, Filter], Program, tuple[int, int]]
Known = Memo[tuple[int, str], tuple[Filter, tuple[int, int], int]]
"""By identity and event type: the filter, which lives so long, the digest of its program, and how many entries had gone
by then. A digest names a filter only as long as none goes: after that its constants may have other values."""


class Index:
    """Subscriptions by content: which of them does an event satisfy?

    The answer is always that of ``matches``, found without looking at most of the subscriptions. Threads may share an
    index. The kernels are compiled once for each machine, when they are first used.
    """

    def __init__(self) -> None:
        self.dictionary = Dictionary()
        self.store = Store(self.dictionary)
        self.registry = Registry()
        self.opaque: dict[int, Filter | str] = {}
        self.lock = threading.RLock()
        self.changes = 0
        """Grows whenever the number of an entry may have passed to another filter, or to other subscriptions."""
        self.encoder = Encoder(self.dictionary)
        self._compiler = Compiler(self.dictionary)
        self._scanner: Scanner | None = None
        self._rows = RowEncoder(self.dictionary)
        self._gone = 0  # entries, ever
        self._batch_candidates = 0
        self._matches = 0
        self._events = 0
        self._review_at = 1024
        self._blank = Blank()
        self._fitted = 0  # the blank's sizes are right for the arrays that the store had by then
        self._kernel: Callable[..., tuple[int, int, int, int]]
        self._space = Space()

    def __len__(self) -> int:
        """How many subscriptions there are."""
        return self.registry.count

    def __contains__(self, sub_id: str) -> bool:
        """Is there a subscription with this id?"""
        return self.registry.slot(sub_id) >= 0

    # -- changes

    def add(self, subscription: Subscription, checked: bool = False) -> None:
        """Add a subscription, or replace the one that has its id.

        Its filter is checked first, and a FilterError or SubscriptionError raised; ``checked`` says that this was done
        already, as ``read_subscription`` does it.
        """
        filter = subscription.whole_filter() if checked else _check(subscription)
        with self.lock:
            self._put_all([(subscription.id, filter)])
            if self.store.wants_optimizing():
                self.store.optimize()

    def add_many(self, subscriptions: Iterable[Subscription], checked: bool = False) -> int:
        """Add all of them; returns how many were given.

        Access paths are chosen when all are there, and room for growth is given back, if they are many. They are
        taken a hundred at a time, each step for all of them, which is twice as fast as all steps for each.
        """
        count = 0
        waiting = iter(subscriptions)
        known: Known = Memo()
        while True:
            some: list[tuple[Subscription, Filter]] = []
            try:
                some.extend((s, s.whole_filter() if checked else _check(s)) for s in islice(waiting, AT_A_TIME))
            finally:  # those before a bad one count
                with self.lock:
                    self._put_some(some, known)
            count += len(some)
            if len(some) < AT_A_TIME:
                break
        with self.lock:
            if count * 4 > len(self) or self.store.wants_optimizing():
                self.store.optimize()
                self.store.trim()
                self.registry.trim()
        return count

    def remove(self, subscription_id: str) -> bool:
        """Remove a subscription; False if there is none with this id."""
        with self.lock:
            slot = self.registry.slot(subscription_id)
            if slot < 0:
                return False
            self.changes += 1
            entry, left = self.registry.leave(slot)
            self.registry.drop_slot(subscription_id)
            if left == 0:
                self._gone += 1
                self.registry.drop_entry(entry)
                self.store.delete(entry)
                self.opaque.pop(entry, None)
                if self.store.wants_optimizing():
                    self.store.optimize()
            return True

    def _put_some(self, some: list[tuple[Subscription, Filter]], known: Known) -> None:
        """Add or replace subscriptions. One whose filter was compiled before only joins the entry of that."""
        fresh: list[tuple[str, Filter]] = []
        keys = []
        if len({subscription.id for subscription, _ in some}) < len(some):
            known = Memo()  # the last one of an id counts, so they come in their order
        for subscription, filter in some:
            key = id(subscription.filter), subscription.type
            seen = known.get(key)
            entry = -1 if seen is None or seen[2] != self._gone else self.registry.entry(seen[1])
            if entry < 0 or self.registry.slot(subscription.id) >= 0:
                fresh.append((subscription.id, filter))
                keys.append((key, subscription.filter))
            else:
                self.registry.join(entry, self.registry.new_slot(subscription.id))
        digests = self._put_all(fresh)
        for (key, filter), digest in zip(keys, digests, strict=False):
            known.put(key, (filter, digest, self._gone))

    def _put_all(self, some: list[tuple[str, Filter]]) -> list[tuple[int, int]]:
        """Add or replace subscriptions; each program holds its constants, so no old filter takes them along.

        Returns the digests of their programs.
        """
        programs: list[Program] = []
        digests: list[tuple[int, int]] = []
        try:
            programs.extend(self._compiler.compile(filter) for _, filter in some)
        finally:  # those before one that cannot be compiled count
            digests = [program.digest() for program in programs]
            given = list(zip(some, programs, digests, strict=False))
            for (id, filter), program, digest in given if len(given) < MANY else self._put_new(given):
                self._put(id, filter, program, digest)
        return digests

    def _put_new(self, given: list[Given]) -> list[Given]:
        """Of many subscriptions enter those that are new and have filters that no other has, in one go; the others."""
        self.changes += 1
        ids = [id.encode() for (id, _), _, _ in given]
        slots = self.registry.slots_of_ids(ids)
        entries = self.registry.entries_of(np.array([digest for _, _, digest in given], np.int64))
        times, filters = Counter(ids), Counter(digest for _, _, digest in given)
        new: list[tuple[int, Given]] = []
        others: list[tuple[int, Given]] = []
        for at, one in enumerate(given):
            is_new = slots[at] < 0 and entries[at] < 0 and times[ids[at]] == 1 and filters[one[2]] == 1
            (new if is_new else others).append((at, one))
        made = self.store.insert_many([program for _, (_, program, _) in new])
        taken = self.registry.new_slots([ids[at] for at, _ in new])
        self.registry.new_entries(made, np.array([one[2] for _, one in new], np.int64).reshape(-1, 2), taken)
        for (_, ((_, filter), program, _)), entry in zip(new, made.tolist(), strict=True):
            if program.is_opaque:
                self.opaque[entry] = filter
        return [one for _, one in others]

    def _put(self, sub_id: str, condition: Filter, program: Program, digest: tuple[int, int]) -> None:
        self.changes += 1
        slot = self.registry.slot(sub_id)
        entry = self.registry.entry(digest)
        if slot >= 0 and entry != self.registry.entry_of[slot]:
            self.remove(sub_id)
            slot = -1
        if entry >= 0:
            self.dictionary.release(program.codes)  # the entry that is there holds them, too
            if slot < 0:
                self.registry.join(entry, self.registry.new_slot(sub_id))
            return
        slot = self.registry.new_slot(sub_id)
        entry = self.store.insert(program)
        self.registry.new_entry(entry, digest, slot)
        if program.is_opaque:
            self.opaque[entry] = condition

    # -- matching

    def match(self, event: Event) -> list[str]:
        """The ids of the matching subscriptions, sorted."""
        with self.lock:
            row = self._rows.of_strings(event) or self._row_of_values(event)
            ids: list[str] | None
            if row is None:
                ids = self.registry.ids_of(self._find_by_views(event))
            else:
                registry = self.registry
                found, uncertain, many, written = self._run(row, registry.handle)
                ids = registry.read_ids(many, written)
                if ids is None:
                    ids = registry.ids_of(self._decided(event, found, uncertain))
                else:
                    self.count(1, found)
            ids.sort()
            return ids

    def match_slots(self, event: Event) -> Array:
        """The slots of the matching subscriptions, in no order; ``id_of`` names them."""
        with self.lock:
            return self.registry.slots(self._find(event))

    def match_entries(self, event: Event) -> Array:
        """The numbers of the matching entries, in no order."""
        return self._find(event).copy()

    def _find(self, event: Event) -> Array:
        """The matching entries, in an array that the next event may use again."""
        row = self._rows.of_strings(event) or self._row_of_values(event)
        if row is None:
            return self._find_by_views(event)
        found, uncertain, _, _ = self._run(row)
        return self._decided(event, found, uncertain)

    def _row_of_values(self, event: Event) -> Row | None:
        """The row of an event that has no form; None if it has arrays, and so many views."""
        return None if tuple in map(type, event.attributes.values()) else self.encode(only_view(event))

    def _find_by_views(self, event: Event) -> Array:
        views = expansions(event, self.dictionary.names)
        entries = np.unique(np.concatenate([self.match_view(view) for view in views]))
        self.count(1, len(entries))
        return entries

    def _decided(self, event: Event, found: int, uncertain: int) -> Array:
        """The entries of an event without arrays, of which the kernel has just left so many in the blank."""
        entries = self._blank.found[:found]
        if uncertain:
            entries = self._decide(only_view(event), entries, self._blank.uncertain[:uncertain])
        self.count(1, len(entries))
        return entries

    def match_view(self, view: Mapping[str, Value]) -> Array:
        """The numbers of the entries that match a single-valued view, in no order; the event is not counted."""
        found, uncertain = self.run_view(view)
        return self._decide(view, found, uncertain) if len(uncertain) else found

    def _decide(self, view: Mapping[str, Value], found: Array, uncertain: Array) -> Array:
        """The entries that were found, and those that the evaluator adds to them."""
        sure = [entry for entry in uncertain.tolist() if evaluate(self.opaque_filter(entry), view)]
        return np.concatenate((found, np.array(sure, np.int32)))

    def encode(self, view: Mapping[str, Value]) -> Row:
        """A single-valued view as the kernel reads it."""
        return self._rows.of_view(view)

    def run_view(self, view: Mapping[str, Value]) -> tuple[Array, Array]:
        """Run the kernel on a single-valued view: the entries that match, and those that it cannot decide."""
        found, uncertain, _, _ = self._run(self.encode(view))
        return self._blank.found[:found].copy(), self._blank.uncertain[:uncertain].copy()

    def _run(self, row: Row, ids_of: int = NO_IDS) -> tuple[int, int, int, int]:
        """Run the kernel on a row: what ``match_event`` returns, the entries in a blank that the next event uses."""
        store = self.store
        if self._fitted != store.assignments:
            self._fit()
        store.events += 1
        return self._kernel(row.handle, row.size, row.room, row.text_count, ids_of)

    def _fit(self) -> None:
        """Make ready for single events what follows the store's arrays; to be done whenever one is assigned."""
        store, blank = self.store, self._blank
        store.link_all()
        blank.fit(len(store.attributes), len(store.starts), len(store.lists), store.places)
        self._fitted = store.assignments
        self._kernel = partial(of_numbers(match_event), store.handle, blank.handle)

    def scan(self, texts: Texts, limits: Limits, needs_id: bool) -> Scanned:
        """JSON texts as columns, as far as the kernel reads them (``recado.matching.scanner``)."""
        if self._scanner is None:
            self._scanner = Scanner(self.dictionary)
        return self._scanner.scan(texts, limits, needs_id)

    def run_columns(self, columns: Columns | Scanned) -> tuple[Array, Array]:
        """Run the batch kernel on encoded columns: (rows, entries with flags)."""
        store, space = self.store, self._space
        if columns.size == 0:
            return space.found_events[:0], space.found[:0]
        store.link_all()
        batch = columns.batch()
        space.fit(batch.size, len(store.by_constant), max(len(batch.codes), len(batch.downs)), store.places)
        if store.places:
            batch.by_event = np.ascontiguousarray(batch.downs.T)
        if columns.has_texts:
            space.fit_texts(len(store.lists))
        count = -1
        while count < 0 or count > len(space.found):
            space.fit_found(count)
            space.counts[0] = 0
            store.events += batch.size  # each time, as the kernel counts values each time
            count = match_columns(store.handle, batch.handle, space.handle, batch.size, batch.is_exact)
        self._batch_candidates += int(space.counts[0])
        return space.found_events[:count], space.found[:count]

    def distinct(self, events: Array, entries: Array, size: int) -> tuple[Array, Array]:
        """Pairs of ``size`` events and their entries, each once."""
        blank = self._blank
        blank.fit(0, self.store.capacity, 0, 0)
        stamp = int(blank.counts[STAMP]) + 1
        blank.counts[STAMP] += size
        owners, kept = distinct(events, entries, size, blank.stamps, stamp)
        return owners, kept

    def count(self, events: int, matches: int) -> None:
        """So many events were matched, with so many entries found; now and then, ask whether that cost too much."""
        self._events += events
        self._matches += matches
        if self._events >= self._review_at:
            self._review()

    @property
    def candidates(self) -> int:
        """How many entries were verified so far; the kernel for single events counts its own."""
        return self._batch_candidates + int(self._blank.counts[CANDIDATES])

    def _review(self) -> None:
        """Choose access paths anew if events came to verify many entries in vain: their values are known better now.

        Reviews are rare, each after sixteen times as many events as the last, so they cost next to nothing.
        """
        events, candidates, matches = self._events, self.candidates, self._matches
        self._review_at = 16 * events
        if candidates > 8 * matches + 64 * events:
            self.store.optimize()

    def opaque_filter(self, entry: int) -> Filter:
        """The filter of an entry that the kernel may leave to the evaluator; a snapshot keeps it as text."""
        filter = self.opaque[entry]
        if isinstance(filter, str):
            filter = self.opaque[entry] = expression.read_back(filter)
        return filter

    def id_of(self, slot: int) -> str:
        return self.registry.id_of(slot)

    # -- snapshots

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index to a file that ``load`` maps."""
        save(self, path)

    @staticmethod
    def load(path: str | os.PathLike[str], check: bool = True) -> Index:
        """Map a saved index; a RecadoError if the file is not one. ``check=False`` trusts the file."""
        return load(path, check)

    # -- information

    def statistics(self) -> dict[str, float]:
        """Sizes, and what matching has cost so far."""
        return {
            "subscriptions": len(self),
            "entries": self.store.entries,
            "bytes": self.store.nbytes() + self.registry.nbytes() + self.dictionary.nbytes(),
            "events": self._events,
            "candidates": self.candidates,
            "matches": self._matches,
        }


def _check(subscription: Subscription) -> Filter:
    check_id(subscription.id)
    return check_filter(subscription.whole_filter())


# --- An index as bytes or as a file that many processes can map at once ----------------------------------------------
#
# The flat arrays lie in the file as they lie in memory, so loading maps them and rebuilds only the dictionary; pages
# are shared between processes until one of them changes its copy. Layout: magic, length and digest of the header, the
# header (MessagePack), then the arrays, each at a multiple of 64 bytes and with a CRC-32 of its own. A file that is
# damaged, cut short or of another version is refused with the reason, before any of it is used; and so is one whose
# checksums are right and whose numbers lead outside (``recado.matching.soundness``).


MAGIC = b"RECADOIX"
VERSION = 4
"""Version 3 had hash tables without a seed. Version 2 was written by a builder that could mix up the constants of
filters loaded together (docs/decisions/exactness.md), so what such a file matches cannot be relied on."""
EXACT = 3
"""From this version on what a snapshot matches can be relied on."""
ALIGNMENT = 64
_PREFIX = struct.Struct("<8sIQ16s")


class SnapshotError(RecadoError):
    """A snapshot that cannot be loaded."""


_TYPES = ("<i4", "<i8", "<u4", "|u1", "<f8")


class _ArrayInfo(msgspec.Struct, array_like=True):
    owner: str
    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    crc: int


class _Header(msgspec.Struct):
    arrays: list[_ArrayInfo]
    names: list[str]
    wants_text: list[bool]
    wants_folded: list[bool]
    constants: list[Any]
    counters: dict[str, dict[str, int]]
    free: dict[str, Any]
    opaque: dict[int, str]


def to_bytes(index: Index) -> bytes:
    """The whole index as bytes."""
    return b"".join(_pieces(index))


def save(index: Index, path: str | os.PathLike[str]) -> None:
    """Write the index to a file, which appears under its name only when it is complete."""
    target = Path(path)
    draft = target.with_name(f"{_draft_prefix(target)}{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        _remove_stale_drafts(target)
        with draft.open("wb") as file:
            file.writelines(_pieces(index))
            files.sync(file)
        files.rename(draft, target)
        files.sync_folder(target.parent)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise SnapshotError(f"{path} cannot be written: {error.strerror}") from None


def _draft_prefix(target: Path) -> str:
    """Drafts are named after machine, process and thread, so that no two writers share one."""
    return f"{target.name}.{platform.node()}."


def _remove_stale_drafts(target: Path) -> None:
    """Remove the drafts of processes on this machine that are gone: they were killed while saving."""
    prefix = _draft_prefix(target)
    for draft in target.parent.iterdir():
        if draft.name.startswith(prefix) and draft.suffix == ".tmp":
            process = draft.name[len(prefix) :].split(".")[0]
            if process.isdecimal() and not _is_alive(int(process)):
                draft.unlink(missing_ok=True)


def _is_alive(process: int) -> bool:
    if os.name != "posix":
        return True  # elsewhere there is no harmless way to ask
    try:
        os.kill(process, 0)  # asks, and does nothing to it
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # not ours, so it is there
        return True
    return True


def from_bytes(data: bytes) -> Index:
    """The index of ``to_bytes``."""
    return _restore(bytearray(data), "the snapshot", check=True)


def load(path: str | os.PathLike[str], check: bool = True) -> Index:
    """Map a saved index. ``check=False`` skips the CRCs, for files that were checked before.

    That nothing in it leads outside is checked always.
    """
    try:
        with Path(path).open("rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                raise SnapshotError(f"{path} is empty; a snapshot was expected")
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    except OSError as error:
        raise SnapshotError(f"{path} cannot be read: {error.strerror}") from None
    return _restore(data, str(path), check)


_COUNTERS = {
    "store": ("words_top", "events", "entries", "optimized_at", "_changes", "_entries_top"),
    "registry": ("count", "slots_top", "pool_top", "_garbage", "_entries", "_blocks_top"),
}
_TRIM = {
    "words": "words_top",
    "starts": "_entries_top",
    "pool": "pool_top",
    "offsets": "slots_top",
    "entry_of": "slots_top",
    "keys": "_entries_top",
    "members": "_entries_top",
    "blocks": "_blocks_top",
}
"""How much of an array is in use; the others are kept whole."""


def _arrays(index: Index) -> Iterator[tuple[str, str, Array]]:
    for owner in ("store", "registry"):
        part = getattr(index, owner)
        for name in part.arrays:
            array = getattr(part, name)
            if name in _TRIM:
                top = index.store.capacity if _TRIM[name] == "_entries_top" else getattr(part, _TRIM[name])
                array = array[: max(top, 1)]
            yield owner, name, np.ascontiguousarray(array)
    yield "dictionary", "attribute_of", np.array(index.dictionary.attribute_of, np.int32)
    yield "dictionary", "references", np.array(index.dictionary.references, np.int32)


def _pieces(index: Index) -> Iterator[bytes]:
    with index.lock:
        index.store.link_all()
        infos: list[_ArrayInfo] = []
        blobs: list[bytes] = []
        offset = 0
        for owner, name, array in _arrays(index):
            blob = array.tobytes()
            infos.append(_ArrayInfo(owner, name, array.dtype.str, array.shape, offset, zlib.crc32(blob)))
            blob += bytes(-len(blob) % ALIGNMENT)
            blobs.append(blob)
            offset += len(blob)
        header = msgspec.msgpack.encode(_header(index, infos))
        yield _PREFIX.pack(MAGIC, VERSION, len(header), blake2b(header, digest_size=16).digest())
        yield header
        yield bytes(-(_PREFIX.size + len(header)) % ALIGNMENT)
        yield from blobs


def _header(index: Index, arrays: list[_ArrayInfo]) -> _Header:
    dictionary = index.dictionary
    return _Header(
        arrays=arrays,
        names=list(dictionary.names),
        wants_text=dictionary.wants_text,
        wants_folded=dictionary.wants_folded,
        constants=dictionary.constant_values(),
        counters={
            owner: {name: int(getattr(getattr(index, owner), name)) for name in names}
            for owner, names in _COUNTERS.items()
        },
        free={"store": index.store.free(), "registry": index.registry.free(), "dictionary": dictionary.free()},
        opaque={entry: f if isinstance(f, str) else format_expression(f) for entry, f in index.opaque.items()},
    )


def _restore(data: mmap.mmap | bytearray, where: str, check: bool) -> Index:
    header, base = _read_header(data, where)
    try:
        return _rebuild(header, data, base, where, check)
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise SnapshotError(f"{where} is damaged: {error}") from None


def _rebuild(header: _Header, data: mmap.mmap | bytearray, base: int, where: str, check: bool) -> Index:
    index = Index()
    expected = {(owner, name) for owner in ("store", "registry") for name in getattr(index, owner).arrays}
    expected |= {("dictionary", "attribute_of"), ("dictionary", "references")}
    if {(info.owner, info.name) for info in header.arrays} != expected:
        raise SnapshotError(f"{where} is damaged: it does not hold the arrays of an index")
    if {owner: tuple(counters) for owner, counters in header.counters.items()} != _COUNTERS:
        raise SnapshotError(f"{where} is damaged: it does not hold the counters of an index")
    found = {}
    for info in header.arrays:
        found[info.owner, info.name] = _read_array(data, base, info, where, check)
    for owner, counters in header.counters.items():
        for name, value in counters.items():
            setattr(getattr(index, owner), name, value)
    for (owner, name), array in found.items():
        if owner != "dictionary":
            setattr(getattr(index, owner), name, array)
    if len(set(header.names)) != len(header.names) or not len(header.names) == len(header.wants_text) == len(
        header.wants_folded
    ):
        raise SnapshotError(f"{where} is damaged: its names are wrong")
    attribute_of = found["dictionary", "attribute_of"].tolist()
    if any(not 0 <= attribute < max(len(header.names), 1) for attribute in attribute_of):
        raise SnapshotError(f"{where} is damaged: a constant belongs to no name")
    index.store.views()
    index.store.restore_free(header.free["store"])
    index.registry.restore_free(header.free["registry"])
    dictionary: Dictionary = index.dictionary
    dictionary.restore(
        header.names, header.wants_text, header.wants_folded, header.constants, header.free["dictionary"],
        attribute_of, found["dictionary", "references"].tolist(),
    )  # fmt: skip
    check_store(index.store, len(header.names), len(header.constants))
    check_registry(index.registry, index.store.starts[: index.store.capacity], header.counters["registry"])
    if any(not 0 <= entry < index.store.capacity for entry in header.opaque) or not _are_places(
        header.free["dictionary"], len(header.constants)
    ):
        raise SnapshotError(f"{where} is damaged: what is opaque or free does not exist")
    index.opaque = dict(header.opaque)
    return index


def _are_places(values: Any, top: int) -> bool:
    return isinstance(values, list) and all(type(one) is int and 0 < one < top for one in values)


def _read_header(data: mmap.mmap | bytearray, where: str) -> tuple[_Header, int]:
    if len(data) < _PREFIX.size or data[:8] != MAGIC:
        raise SnapshotError(f"{where} is not a snapshot of an index")
    _, version, size, digest = _PREFIX.unpack_from(data)
    if version != VERSION:
        raise SnapshotError(
            f"{where} has snapshot version {version}; this program reads version {VERSION}. "
            "Build it again from its subscriptions (recado pipeline publish SUBSCRIPTIONS --set FOLDER makes a set)"
            + (": version 2 and older may hold filters that match wrongly" if version < EXACT else "")
        )
    raw = bytes(data[_PREFIX.size : _PREFIX.size + size])
    if len(raw) < size or blake2b(raw, digest_size=16).digest() != digest:
        raise SnapshotError(f"{where} is damaged: its header does not have the checksum it was written with")
    try:
        header = msgspec.msgpack.decode(raw, type=_Header)
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        raise SnapshotError(f"{where} is damaged: {error}") from None
    end = _PREFIX.size + size
    return header, end + (-end % ALIGNMENT)


def _read_array(data: mmap.mmap | bytearray, base: int, info: _ArrayInfo, where: str, check: bool) -> Array:
    if info.dtype not in _TYPES:
        raise SnapshotError(f"{where} is damaged: array {info.name!r} has the type {info.dtype!r}")
    dtype = np.dtype(info.dtype)
    count = int(np.prod(info.shape))
    if base + info.offset + count * dtype.itemsize > len(data):
        raise SnapshotError(f"{where} is cut short: array {info.name!r} is not all there")
    array = np.frombuffer(data, dtype, count, base + info.offset)
    if check and zlib.crc32(array.data) != info.crc:
        raise SnapshotError(f"{where} is damaged: array {info.name!r} does not have the checksum it was written with")
    return array.reshape(info.shape)
