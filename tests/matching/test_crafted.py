"""Snapshots with right checksums and wrong numbers: refused, or harmless. Nothing that loads makes a kernel crash."""

import subprocess
import sys
import zlib
from contextlib import suppress
from hashlib import blake2b
from random import Random

import msgspec
import numpy as np
import pytest

from matching.workload import random_event, random_filter
from recado.errors import RecadoError
from recado.matching import index as snapshot
from recado.matching.index import Index, SnapshotError
from recado.model.filter import And, Between, Compare, In, Or, Text
from recado.model.subscription import Subscription

PREFIX = snapshot._PREFIX


def parts(data):
    """The header, and the arrays by owner and name, each a copy."""
    _, _, size, _ = PREFIX.unpack_from(data)
    header = msgspec.msgpack.decode(data[PREFIX.size : PREFIX.size + size], type=snapshot._Header)
    base = PREFIX.size + size + -(PREFIX.size + size) % snapshot.ALIGNMENT
    arrays = {}
    for info in header.arrays:
        count = int(np.prod(info.shape))
        found = np.frombuffer(data, np.dtype(info.dtype), count, base + info.offset)
        arrays[info.owner, info.name] = found.reshape(info.shape).copy()
    return header, arrays


def crafted(header, arrays):
    """A file of these parts, with checksums that are right."""
    blobs, infos, offset = [], [], 0
    for (owner, name), array in arrays.items():
        blob = array.tobytes()
        infos.append(snapshot._ArrayInfo(owner, name, array.dtype.str, array.shape, offset, zlib.crc32(blob)))
        blob += bytes(-len(blob) % snapshot.ALIGNMENT)
        blobs.append(blob)
        offset += len(blob)
    raw = msgspec.msgpack.encode(msgspec.structs.replace(header, arrays=infos))
    head = PREFIX.pack(snapshot.MAGIC, snapshot.VERSION, len(raw), blake2b(raw, digest_size=16).digest())
    return head + raw + bytes(-(len(head) + len(raw)) % snapshot.ALIGNMENT) + b"".join(blobs)


def good(count=300, *, optimized=True):
    index = Index()
    rng = Random(5)
    index.add_many(Subscription(f"s{number}", random_filter(rng)) for number in range(count))
    filters = (
        And((Between("a", 0, 5), Text("b", "prefix", "ab"))),
        Or((Compare("a", "==", 2.5), In("b", ("ab", True)), And((Compare("c", ">", 1), Compare("a", "<", 9))))),
        Or((Text("b", "like", "a%b_c"), Between("c", 1, 2))),
    )
    for number, filter in enumerate(filters):
        index.add(Subscription(f"own {number}", filter))
        index.add(Subscription(f"own {number} again", filter))
    index.remove("own 1 again")
    if optimized:
        index.store.optimize()
    return snapshot.to_bytes(index)


def use(index, rng):
    """All that may be done with an index."""
    for _ in range(20):
        index.match(random_event(rng))
    for number in range(10):
        index.add(Subscription(f"new {number}", And((Compare("a", "==", number), Between("c", 0, number + 1)))))
    with suppress(AssertionError):  # constants that are given back too often are noticed
        for id in ("own 0", "own 1", "own 2", "new 3"):
            index.remove(id)
    index.store.optimize()
    index.match(random_event(rng))


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (("store", "starts"), 2**31 - 1, "a program leads outside"),
        (("store", "starts"), -7, "number of entries"),
        (("store", "postings"), 2**31 - 1, "free block|unknown entry|leads outside"),
        (("store", "lists"), 2**30, "longer than its room|leads outside|power of two|unknown"),
        (("store", "table"), 2**40, "no list|counted wrong"),
        (("store", "state"), 2**40, "more lists"),
        (("store", "grids"), 2**31 - 1, "grid leads outside"),
        (("store", "attributes"), 2**40, "does not exist|too long"),
        (("store", "by_constant"), 2**31 - 1, "does not exist"),
        (("store", "words"), -1, "."),
        (("registry", "offsets"), 2**32 - 1, "an id leads outside"),
        (("registry", "entry_of"), 2**31 - 1, "an entry is unknown"),
        (("registry", "members"), 2**31 - 1, "more subscriptions than its room|does not exist|lead outside"),
        (("registry", "ids"), 2**31 - 1, "counted wrong|leads outside"),
        (("registry", "key_table"), 2**31 - 1, "counted wrong|leads outside"),
        (("dictionary", "attribute_of"), 2**31 - 1, "belongs to no name"),
        (("dictionary", "attribute_of"), -1, "belongs to no name"),
    ],
)
def test_an_index_out_of_range_is_refused(place, value, words):
    header, arrays = parts(good(50))
    arrays[place].reshape(-1)[:] = value
    with pytest.raises(SnapshotError, match=words):
        snapshot.from_bytes(crafted(header, arrays))


def test_an_id_that_is_no_text_is_refused():
    header, arrays = parts(good(50))
    pool, begin = arrays["registry", "pool"], int(arrays["registry", "offsets"][7])
    pool[begin + 2] = 0xFF
    with pytest.raises(SnapshotError, match="an id is not UTF-8"):
        snapshot.from_bytes(crafted(header, arrays))


COUNTERS = [(owner, name) for owner, names in snapshot._COUNTERS.items() for name in names]
HARMLESS = [("store", "events"), ("store", "optimized_at"), ("store", "_changes")]


@pytest.mark.parametrize("counter", [counter for counter in COUNTERS if counter not in HARMLESS])
@pytest.mark.parametrize("value", [-1, 2**40])
def test_a_counter_out_of_range_is_refused(counter, value):
    header, arrays = parts(good(50))
    header.counters[counter[0]][counter[1]] = value
    with pytest.raises(SnapshotError):
        snapshot.from_bytes(crafted(header, arrays))


def attack(seeds):
    """Change some numbers at random, many times; how many files were taken all the same."""
    taken = 0
    bases = [parts(good()), parts(good(80, optimized=False))]
    for seed in seeds:
        rng = Random(seed)
        header, arrays = bases[seed % 2]
        changed = {place: array.copy() for place, array in arrays.items()}
        for _ in range(rng.choice((1, 1, 2, 5))):
            place = rng.choice(list(changed))
            flat = changed[place].reshape(-1)
            at = rng.randrange(len(flat))
            kind = np.iinfo(flat.dtype) if flat.dtype.kind in "iu" else None
            if kind is None:
                flat[at] = rng.choice((np.nan, np.inf, -np.inf, 0.0, 1e300))
                continue
            value = rng.choice((0, 1, -1, 7, 63, int(flat[at]) + rng.choice((-1, 1)), kind.max, kind.min,
                                int(rng.choice(flat)), int(flat[at]) ^ 1 << rng.randrange(kind.bits - 1)))  # fmt: skip
            flat[at] = min(max(value, int(kind.min)), int(kind.max))
        try:
            index = snapshot.from_bytes(crafted(header, changed))
        except RecadoError:
            continue
        taken += 1
        with suppress(RecadoError, KeyError, UnicodeDecodeError, IndexError):
            use(index, rng)
    return taken


def test_numbers_that_were_changed_at_random_crash_nothing():
    """In a process of its own, which a crash would end."""
    code = (
        "import sys; sys.path[:0] = sys.argv[1:]; from matching.test_crafted import attack; print(attack(range(600)))"
    )
    paths = [path for path in sys.path if path]
    done = subprocess.run([sys.executable, "-c", code, *paths], capture_output=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    assert int(done.stdout) < 500, "most changes are noticed"


@pytest.mark.long
def test_numbers_that_were_changed_at_random_crash_nothing_many_times():
    attack(range(1_000, 21_000))


def test_what_was_written_is_taken():
    for count, optimized in ((0, False), (1, True), (40, False), (2_000, True)):
        use(snapshot.from_bytes(good(count, optimized=optimized)), Random(1))
