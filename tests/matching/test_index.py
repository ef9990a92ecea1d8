"""The index as a whole: changes, sharing, optimisation, limits, threads."""

from __future__ import annotations

import random
import threading
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest

from matching.oracle import engines, ids_by_event
from matching.workload import churned, random_event
from recado.errors import FilterError, LimitError, RecadoError
from recado.filters import expression
from recado.matching import dictionary
from recado.matching.batch import match_batch, match_events
from recado.matching.index import AT_A_TIME, Index
from recado.matching.kernels.postings import LISTS_TOP, POSTINGS_TOP, TABLE_USED
from recado.matching.naive import NaiveMatcher
from recado.model.event import Event
from recado.model.filter import TRUE, And, Between, Compare, Exists, In, Not, Or, Regex, Sql, Text
from recado.model.subscription import Subscription
from recado.model.values import microseconds


def event(**attributes) -> Event:
    return Event("e", attributes=attributes)


# -- changes


def test_add_match_remove():
    index = Index()
    index.add(Subscription("s", Compare("x", "==", 1)))
    assert (len(index), "s" in index, "t" in index) == (1, True, False)
    assert index.match(event(x=1)) == ["s"]
    assert index.match(event(x=2)) == []
    assert index.remove("s") is True
    assert index.remove("s") is False
    assert (len(index), "s" in index) == (0, False)
    assert index.match(event(x=1)) == []


def test_a_subscription_with_the_same_id_replaces():
    index = Index()
    for filter in (Compare("x", "==", 1), Compare("x", "==", 2), Compare("x", "==", 2), Regex("x", "a.*"), TRUE):
        index.add(Subscription("s", filter))
        assert len(index) == 1
    assert index.statistics()["entries"] == 1
    index.add(Subscription("s", Compare("x", "==", 2)))
    assert index.match(event(x=1)) == []
    assert index.match(event(x=2)) == ["s"]


def test_replacing_one_of_several_that_share_a_filter():
    index = Index()
    for id in "abc":
        index.add(Subscription(id, Compare("x", "==", 1)))
    index.add(Subscription("b", Compare("x", "==", 2)))
    assert index.match(event(x=1)) == ["a", "c"]
    assert index.match(event(x=2)) == ["b"]
    assert index.statistics()["entries"] == 2


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (Compare("x", "==", 1), Compare("x", "==", 1.0)),
        (And((Compare("x", "==", 1), Exists("y"))), And((Exists("y"), Compare("x", "==", 1)))),
        (Not(Not(Exists("x"))), Exists("x")),
        (In("x", (2, 1, 1)), In("x", (1, 2))),
        (Or((Exists("x"), Exists("y"))), Or((Exists("x"), Exists("y")))),
        (Regex("y", "1|a"), Regex("y", "1|a")),
    ],
)
def test_equal_filters_share_one_entry(left, right):
    index = Index()
    index.add(Subscription("a", left))
    index.add(Subscription("b", right))
    assert index.statistics()["entries"] == 1
    assert index.match(event(x=1, y="a")) == ["a", "b"]
    index.remove("a")
    assert index.match(event(x=1, y="a")) == ["b"]
    index.remove("b")
    assert index.statistics()["entries"] == 0


@pytest.mark.parametrize(
    "different",
    [
        (Compare("x", "==", 1), Compare("x", "==", True), Compare("x", "==", "1"), Compare("y", "==", 1)),
        (Regex("x", "a"), Regex("x", "b"), Regex("y", "a"), Text("x", "like", "a"), Text("x", "like", "a", True)),
        (Compare("x", "<", 1), Compare("x", "<=", 1), Compare("x", ">", 1), Between("x", 1, 1)),
        (Compare("x", "<", 2**53 + 1), Compare("x", "<", 2**53 + 3), Compare("x", "<=", 2**53 + 1)),
        (Text("x", "prefix", "a"), Text("x", "prefix", "a\x00"), Text("x", "suffix", "a"), Text("x", "contains", "a")),
        (And((Exists("x"), Exists("y"))), Or((Exists("x"), Exists("y"))), Not(Exists("x"))),
        (Sql("x = 1"), Sql("LENGTH(x) = 1"), Sql("LENGTH(x) = 2"), Sql("LENGTH(y) = 1")),
    ],
)
def test_different_filters_never_share(different):
    index, naive = engines(different)
    assert index.statistics()["entries"] == len(different)
    for value in (1, "1", True, "a", "a\x00", "A", "b", 0, 2, 2**53, 2**53 + 1, 2**53 + 2):
        for one in (event(x=value), event(y=value), event(x=value, y=value)):
            assert index.match(one) == naive.match(one)


def test_the_type_is_part_of_the_filter():
    index = Index()
    for type in ("", "a", "a*", "*"):
        index.add(Subscription(f"type {type}", Exists("x"), type=type))
    assert index.match(event(x=1)) == ["type "]
    assert index.match(Event("e", type="a", attributes={"x": 1})) == ["type ", "type *", "type a", "type a*"]
    assert index.match(Event("e", type="b", attributes={"x": 1})) == ["type ", "type *"]


def test_slots_name_their_subscriptions():
    index = Index()
    count = index.add_many(Subscription(f"é{number}", Compare("x", ">=", number)) for number in range(20))
    assert count == len(index) == 20
    slots = index.match_slots(event(x=4))
    assert sorted(index.id_of(int(slot)) for slot in slots) == [f"é{number}" for number in range(5)]


@pytest.mark.parametrize(
    "ids",
    [["a"], ["a", "a\0b", "\0"], ["é" * 100, "ü"], [f"{number:050}" for number in range(200)]],
    ids=["one", "with a zero inside", "not ASCII", "more than there is room for"],
)
def test_the_ids_of_a_match_whatever_they_are(ids):
    """The kernel writes them as one text, if it can."""
    index = Index()
    for id in ids:
        index.add(Subscription(id, Compare("x", "==", "y")))
    for _ in range(3):
        assert index.match(Event("e", attributes={"x": "y"})) == sorted(ids)
        assert index.match(Event("e", attributes={"x": "z"})) == []
    assert index.match(Event("e", attributes={"x": ("z", "y")})) == sorted(ids)


def test_statistics_count():
    index = Index()
    index.add_many(Subscription(f"s{number}", Compare("x", "==", number % 5)) for number in range(20))
    before = index.statistics()
    index.match(event(x=1))
    match_events(index, [event(x=1), event(x=2), event(x=9)])
    after = index.statistics()
    assert (after["subscriptions"], after["entries"]) == (20, 5)
    assert after["events"] - before["events"] == 4
    assert after["matches"] - before["matches"] == 3
    assert after["candidates"] >= before["candidates"]
    assert after["bytes"] > 0


# -- what is refused


BAD = [
    Compare("x", "<", float("nan")),
    Regex("x", "("),
    Compare("", "==", 1),
    Text("x", "prefix", "a" * 2000),
    In("x", tuple(range(2000))),
    Compare("x", "==", 2**64),
    Compare("x", "==", "\ud800"),
    Sql("a = "),
]


@pytest.mark.parametrize("filter", BAD, ids=[f"{type(f).__name__}-{n}" for n, f in enumerate(BAD)])
def test_a_bad_filter_is_refused_and_changes_nothing(filter):
    index = Index()
    index.add(Subscription("old", Compare("x", "==", 1)))
    before = index.statistics()
    for id in ("new", "old"):
        with pytest.raises(FilterError):
            index.add(Subscription(id, And((Exists("y"), filter))))
    assert index.statistics() == before
    assert index.match(event(x=1, y=1)) == ["old"]


@pytest.mark.parametrize("id", ["x" * 70_000, "\ud800"], ids=["too long", "lone surrogate"])
def test_a_bad_id_is_refused_and_changes_nothing(id):
    index = Index()
    index.add(Subscription("old", Compare("x", "==", 1)))
    before = index.statistics()
    with pytest.raises(RecadoError):
        index.add(Subscription(id, Compare("x", "==", 2)))
    assert index.statistics() == before
    assert index.match(event(x=2)) == []


# -- size


def check_equal(index: Index, naive: NaiveMatcher, rng: random.Random, count: int) -> None:
    events = [random_event(rng) for _ in range(count)]
    expected = [naive.match(one) for one in events]
    assert sum(map(len, expected)) > count, "the events should meet some filters"
    assert [index.match(one) for one in events] == expected
    assert ids_by_event(index, match_events(index, events)) == expected


def test_thousands_of_subscriptions_are_optimised_and_stay_exact():
    index, naive, rng = churned(seed=1, size=3000, steps=1500)
    assert index.store.optimized_at > 0, "the index should have optimised itself"
    check_equal(index, naive, rng, 25)
    index.store.optimize()
    check_equal(index, naive, rng, 25)
    for number in range(0, 3000, 2):
        assert index.remove(f"s{number}") == naive.remove(f"s{number}")
    check_equal(index, naive, rng, 25)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 8))
def test_many_thousands_stay_exact(seed):
    index, naive, rng = churned(seed, size=20_000, steps=30_000)
    check_equal(index, naive, rng, 60)
    index.store.optimize()
    check_equal(index, naive, rng, 60)


def test_what_was_seen_of_events_changes_paths_but_not_results():
    index, naive, rng = churned(seed=9, size=600, steps=0)
    for _ in range(300):  # enough for frequencies to count
        index.match(event(x=1, y="v1", p=rng.randrange(400)))
    index.store.optimize()
    check_equal(index, naive, rng, 25)


def sizes(index: Index) -> dict[str, int]:
    store = index.store
    return {
        "words": store.words_top,
        "lists": int(store.state[LISTS_TOP]),
        "postings": int(store.state[POSTINGS_TOP]),
        "keys": int(store.state[TABLE_USED]),
        "entries": store.capacity,
        "constants": index.dictionary.constants,
        "slots": index.registry.slots_top,
    }


def churn(index: Index, make, turns: int, width: int = 50) -> dict[str, int]:
    """Replace ``width`` subscriptions by ever new filters; what the index has grown to."""
    for turn in range(turns):
        for number in range(width):
            index.add(Subscription(f"s{number}", make(turn * width + number)))
    return sizes(index)


CHURN = {
    "equality": lambda n: Compare("x", "==", n),
    "set": lambda n: In("x", (n, n + 1, n + 2)),
    "range": lambda n: Between("x", n, n + 1),
    "tree": lambda n: Or((Compare("x", "==", n), Compare("y", "==", n))),
    "opaque": lambda n: And((Compare("x", "==", n), Regex("y", "a.*"))),
    "constant": lambda n: Or((TRUE, Compare("x", "==", n), Compare("y", "<", n))),
    "mixed": lambda n: And((Compare("x", "==", n), Compare("p", ">", n), Text("y", "suffix", "ab"))),
}


@pytest.mark.parametrize("make", CHURN.values(), ids=CHURN)
def test_churn_leaves_no_rubbish_behind(make):
    index = Index()
    early, late = churn(index, make, 3), churn(index, make, 30)
    for name, size in late.items():
        assert size <= 2 * early[name] + 64, f"{name} grew from {early[name]} to {size}"


def test_churn_of_text_fragments_is_bounded_by_the_next_optimisation():
    index = Index()
    churn(index, lambda n: Text("x", "prefix", f"{n:08}"), 20)
    index.store.optimize()
    assert sizes(index)["lists"] <= 50 + 2
    assert sizes(index)["keys"] <= 50


@pytest.mark.long
def test_churn_of_text_fragments_optimises_in_time():
    index = Index()
    late = churn(index, lambda n: Text("x", "contains", f"{n:08}"), 6000)
    assert late["lists"] <= 110_000
    assert late["keys"] <= 110_000


def test_an_index_that_was_emptied_is_like_a_new_one():
    index, naive, rng = churned(seed=4, size=400, steps=200)
    for number in range(400):
        assert index.remove(f"s{number}") == naive.remove(f"s{number}")
    assert index.statistics()["entries"] == len(index) == 0
    assert not any(index.dictionary.codes)
    assert not index.opaque
    for _ in range(10):
        assert index.match(random_event(rng)) == []


# -- threads


def in_threads(*works) -> None:
    """Run all of them at once; the first exception of any is raised here."""
    errors: list[BaseException] = []

    def run(work) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  # raised again below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_matching_while_others_add_and_remove():
    """What stays must be found each time, what comes and goes may be, and a replacement has no gap."""
    steady = [Compare("x", "==", 1), Compare("x", ">=", 0), Text("y", "prefix", "a"), Regex("y", "a.*")]
    index, _ = engines(steady)
    index.add(Subscription("r", Compare("x", "==", 1)))
    always, sometimes = {"s0", "s1", "s2", "s3", "r"}, {f"t{number}" for number in range(40)}
    done = threading.Event()
    batch = pa.RecordBatch.from_pydict({"x": [1, 5] * 8, "y": ["ab", "b"] * 8})

    def change(seed: int) -> None:
        rng = random.Random(seed)
        for turn in range(400):
            id = f"t{rng.randrange(40)}"
            if rng.random() < 0.4:
                index.remove(id)
            else:
                index.add(Subscription(id, rng.choice([Compare("x", "==", 1), Between("x", 0, turn), Exists("y")])))
            index.add(Subscription("r", [Compare("x", "==", 1), Compare("x", "<", 2 + turn)][turn % 2]))
        done.set()

    def match_one() -> None:
        while not done.is_set():
            found = index.match(event(x=1, y="ab"))
            assert found == sorted(set(found))
            assert always <= set(found) <= always | sometimes

    def match_many() -> None:
        while not done.is_set():
            with index.lock:  # ids are only good while nothing changes
                found = ids_by_event(index, match_batch(index, batch))
            assert all(row == found[0] for row in found[::2])
            assert always <= set(found[0]) <= always | sometimes

    in_threads(lambda: change(1), lambda: change(2), match_one, match_many)
    check = [f"t{number}" for number in range(40) if f"t{number}" in index]
    assert len(index) == 5 + len(check)


def test_two_threads_that_add_lose_nothing():
    index = Index()

    def fill(prefix: str) -> None:
        for number in range(300):
            index.add(Subscription(f"{prefix}{number}", Compare("x", ">=", number % 50)))

    in_threads(*(lambda p=p: fill(p) for p in "abc"))
    assert len(index) == 900
    assert index.statistics()["entries"] == 50
    assert len(index.match(event(x=100))) == 900
    assert len(np.unique(index.match_slots(event(x=100)))) == 900


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("a != 5", "not (c in {} and a in {5, 6})", ["s1"]),
        ("a == 5", "(c < true and a in {5, 6}) or b == 1", ["s0"]),
    ],
)
def test_a_part_that_can_never_be_true_takes_no_constant_along(first, second, expected):
    """Filters that are loaded together share constants; one of them drops a part that names them."""
    subscriptions = [Subscription(f"s{at}", expression.parse(text)) for at, text in enumerate((first, second))]
    for order in (subscriptions, subscriptions[::-1]):
        index = Index()
        index.add_many(order)
        assert index.match(Event("e", attributes={"a": 5})) == expected


LISBON = ZoneInfo("Europe/Lisbon")
FIRST, AGAIN = (datetime(2026, 10, 25, 1, 30, fold=fold, tzinfo=LISBON) for fold in (0, 1))
"""One clock, an hour apart: the second is 01:30 in UTC."""


def test_an_instant_in_an_hour_that_comes_twice_is_one_constant():
    index = Index()
    index.add(Subscription("text", expression.parse('a == t"2026-10-25T01:30:00Z"')))
    index.add(Subscription("zone", Compare("a", "==", AGAIN)))
    index.add(Subscription("set", In("a", (AGAIN, 5))))
    event = Event("e", attributes={"a": AGAIN.astimezone(UTC)})
    assert index.match(event) == ["set", "text", "zone"]
    assert index.remove("zone")
    assert index.match(event) == ["set", "text"]
    assert index.remove("set")
    assert index.remove("text")


@pytest.mark.parametrize("instant", [FIRST, AGAIN, datetime(2026, 3, 29, 1, 30, tzinfo=LISBON)])
@pytest.mark.parametrize("constant", [FIRST, AGAIN, AGAIN.astimezone(UTC), FIRST + timedelta(minutes=-20)])
def test_instants_compare_as_instants_in_whatever_zone(instant, constant):
    """Python itself compares clocks where zones are the same, and has its own idea of an hour that comes twice."""
    left, right = microseconds(instant), microseconds(constant)
    truths = {
        "==": left == right, "!=": left != right, "<": left < right, "<=": left <= right, ">": left > right,
        ">=": left >= right,
    }  # fmt: skip
    subscriptions = [Subscription(op, Compare("a", op, constant)) for op in truths]
    subscriptions += [Subscription("in", In("a", (constant,))), Subscription("on", Between("a", constant, constant))]
    right_ids = sorted([op for op, truth in truths.items() if truth] + ["in", "on"] * (left == right))
    event = Event("e", attributes={"a": instant})
    naive, index = NaiveMatcher(), Index()
    for subscription in subscriptions:
        naive.add(subscription)
    index.add_many(subscriptions)
    assert naive.match(event) == right_ids
    assert index.match(event) == right_ids
    assert sorted(match_events(index, [event]).ids(index).to_pylist()) == right_ids


def test_a_filter_that_cannot_be_compiled_costs_no_other_its_place(monkeypatch):
    monkeypatch.setattr(dictionary, "MAX_CONSTANTS", 3)
    index = Index()
    with pytest.raises(LimitError, match="3 constants"):
        index.add_many(Subscription(f"s{at}", Compare("a", "==", at)) for at in range(4))
    assert index.match(Event("e", attributes={"a": 1})) == ["s1"]
    assert len(index) == 2


def test_many_at_once_with_filters_and_ids_that_come_again():
    """The last one of an id counts, equal filters share an entry, and what is there already is replaced."""
    filters = [Compare("x", "==", number % 7) for number in range(20)]
    given = [
        Subscription(f"s{number * 7 % 900}", filters[number % 20], "t" if number % 3 else "") for number in range(2_000)
    ]
    index, one_by_one = Index(), Index()
    for round in range(2):
        assert index.add_many(given[round * 500 :]) == 2_000 - round * 500
        for subscription in given[round * 500 :]:
            one_by_one.add(subscription)
        for value in range(8):
            for type_ in ("", "t"):
                event = Event("e", type_, attributes={"x": value})
                assert index.match(event) == one_by_one.match(event)
    assert len(index) == len(one_by_one) == 900
    assert index.store.entries == one_by_one.store.entries
    for number in range(0, 900, 2):
        assert index.remove(f"s{number}") == one_by_one.remove(f"s{number}")
    index.add_many(given[:300])
    for subscription in given[:300]:
        one_by_one.add(subscription)
    assert index.match(Event("e", "t", attributes={"x": 1})) == one_by_one.match(Event("e", "t", attributes={"x": 1}))


def test_a_filter_that_comes_again_joins_no_other_that_took_over_its_constants():
    """While many are loaded, a filter goes, another constant gets its number, and the filter comes back."""
    five, fillers = expression.parse("a == 5"), [expression.parse(f"b == {at}") for at in range(AT_A_TIME - 1)]
    texts = {"s": "a == 6", "t": "a == 7"}
    index = Index()
    index.add_many(
        [
            Subscription("s", five),
            *(Subscription(f"f{at}", filter) for at, filter in enumerate(fillers)),
            Subscription("s", expression.parse(texts["s"])),  # the last one with 5 goes
            *(Subscription(f"g{at}", filter) for at, filter in enumerate(fillers)),
            Subscription("t", expression.parse(texts["t"])),
            *(Subscription(f"h{at}", filter) for at, filter in enumerate(fillers)),
            Subscription("u", five),
        ]
    )
    assert [index.match(event(a=a)) for a in (5, 6, 7)] == [["u"], ["s"], ["t"]]
