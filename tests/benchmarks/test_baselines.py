"""Every baseline gives what the naive matcher gives, and says so where it cannot."""

import pyarrow as pa
import pytest

from benchmarks.baselines import BATCH_BASELINES, EVENT_BASELINES, UnsuitableError, bitset
from benchmarks.baselines.bitset import Conjunctions
from benchmarks.baselines.rules import CEL, PYTHON, RULE_ENGINE, literal, spell
from benchmarks.harness import version_of
from benchmarks.oracle import compare, grouped, naive_answers, sample_events
from benchmarks.workloads import Boolean, Mix, Sensor, Stock, TextMatch, Wide, to_events
from recado.model.filter import And, Between, Compare, Exists, In, Not, Or, Text
from recado.model.subscription import Subscription

CONJUNCTIONS = [Mix(size=300), Sensor(size=100), Stock(size=300, symbols=20), Wide(size=12, share=1e-3, words=4)]
DENSE = [Mix(size=100), Boolean(size=80), Sensor(size=50)]
BATCH_PEERS = [name for name, peer in BATCH_BASELINES.items() if version_of(peer.package)]
EVENT_PEERS = [name for name, peer in EVENT_BASELINES.items() if version_of(peer.package)]


def sample(workload, events=15):
    subscriptions = list(workload.subscriptions())
    batch = sample_events(workload, subscriptions, events)
    expected = naive_answers(subscriptions, to_events(batch))
    assert any(expected)
    return subscriptions, batch, expected


@pytest.mark.parametrize("workload", CONJUNCTIONS, ids=lambda workload: workload.name)
@pytest.mark.parametrize("name", BATCH_PEERS)
def test_batch_baselines_are_right(name, workload):
    subscriptions, batch, expected = sample(workload)
    peer = BATCH_BASELINES[name]()
    peer.build(subscriptions)
    events, owners = peer.match_batch(batch)
    compare("", name, expected, grouped(len(batch), events, [subscriptions[owner].id for owner in owners.tolist()]))
    assert peer.bytes_used() > 0


@pytest.mark.parametrize("workload", DENSE, ids=lambda workload: workload.name)
@pytest.mark.parametrize("name", EVENT_PEERS)
def test_event_baselines_are_right(name, workload):
    subscriptions, batch, expected = sample(workload)
    peer = EVENT_BASELINES[name]()
    peer.build(subscriptions)
    found = [[subscriptions[owner].id for owner in peer.match(event)] for event in to_events(batch)]
    compare("", name, expected, found)


@pytest.mark.parametrize("workload", [Wide(size=300, share=1e-3, words=4), TextMatch(size=400)], ids=["wide", "text"])
def test_the_python_function_takes_absent_attributes_and_text(workload):
    subscriptions, batch, expected = sample(workload)
    peer = EVENT_BASELINES["python function"]()
    peer.build(subscriptions)
    events = to_events(batch)
    compare("", "python", expected, [[subscriptions[owner].id for owner in peer.match(event)] for event in events])


def one(filter):
    return [Subscription(id="s", filter=filter)]


@pytest.mark.parametrize(
    "filter",
    [
        Or((Compare("a", "==", 1), Compare("b", "==", 2))),
        And((Compare("a", "==", 1), Not(Compare("b", "==", 2)))),
        Text("a", "prefix", "x"),
        Compare("a", "<", 1),
        Between("a", "x", "y"),
        And((Between("a", 1, 2), Compare("a", "==", 1))),
    ],
)
def test_conjunctions_refuse_what_they_cannot_hold(filter):
    with pytest.raises(UnsuitableError, match="takes"):
        Conjunctions(one(filter))


def test_a_bitset_that_would_not_fit_is_refused_before_it_is_built(monkeypatch):
    monkeypatch.setattr(bitset, "MEMORY_BYTES", 1_000)
    with pytest.raises(UnsuitableError, match="rows of bits would take"):
        bitset.NumpyBitset().build(Mix(size=200).subscriptions())


@pytest.mark.parametrize("kind", [bitset.NumpyBitset, bitset.BlockedBitset])
def test_bitset_edges(kind):
    """Neighbours in a set, floats at a bound, null, and a value that no subscription names."""
    subscriptions = [
        *one(And((In("n", (3, 4, 7)), In("s", ("a", "b"))))),
        *one(And((Between("n", 4, 6), Between("f", 0.5, 0.75)))),
        *one(Compare("s", "==", "b")),
    ]
    batch = pa.RecordBatch.from_pydict(
        {"n": [3, 4, 7, 5, None, 4], "s": ["a", "b", "c", None, "b", "a"], "f": [None, 0.5, 0.5, 0.75, 0.5, 0.76]}
    )
    peer = kind()
    peer.build(subscriptions)
    events, owners = peer.match_batch(batch)
    assert sorted(zip(events.tolist(), owners.tolist(), strict=True)) == [
        (0, 0),
        (1, 0),
        (1, 1),
        (1, 2),
        (3, 1),
        (4, 2),
        (5, 0),
    ]


def test_spelling():
    filter = And((Or((Compare("a", "==", "x"), In("n", (1, 2)))), Not(Between("n", 3, 4.5))))
    assert spell(filter, PYTHON) == '((a == "x") or (n in {1, 2})) and (not (3 <= n <= 4.5))'
    assert spell(filter, RULE_ENGINE) == '((a == "x") or (n in [1, 2])) and (not (n >= 3 and n <= 4.5))'
    assert spell(filter, CEL) == '((a == "x") || (n in [1, 2])) && (!(n >= 3 && n <= 4.5))'
    assert spell(Text("a", "prefix", "x"), CEL) == 'a.startsWith("x")'


@pytest.mark.parametrize("filter", [Exists("a"), Text("a", "prefix", "x", fold=True), Compare("a", "==", True)])
def test_no_spelling(filter):
    with pytest.raises(UnsuitableError, match="no spelling"):
        spell(filter, PYTHON)


def test_literals_are_quoted():
    assert literal('say "hi"\\') == '"say \\"hi\\"\\\\"'
