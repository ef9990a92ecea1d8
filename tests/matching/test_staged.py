"""Plain at first, compiled later: the same answers, whatever happens meanwhile, as the naive matcher gives."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recado.errors import RecadoError
from recado.filters.expression import parse
from recado.matching.index import Index
from recado.matching.naive import NaiveMatcher
from recado.matching.staged import StagedIndex
from recado.model.event import Event
from recado.model.filter import Compare, Regex
from recado.model.subscription import Subscription
from strategies import events, filters

IDS = st.sampled_from("abcdef")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.builds(Subscription, IDS, filters())),
        st.tuples(st.just("add_many"), st.lists(st.builds(Subscription, IDS, filters()), max_size=4)),
        st.tuples(st.just("remove"), IDS),
        st.tuples(st.just("match"), events()),
        st.tuples(st.just("match_many"), st.lists(events(), max_size=3)),
    ),
    max_size=25,
)


def do(staged: StagedIndex, naive: NaiveMatcher, action: str, what) -> None:
    if action == "add":
        staged.add(what)
        naive.add(what)
    elif action == "add_many":
        assert staged.add_many(what) == len(what)
        for one in what:
            naive.add(one)
    elif action == "remove":
        assert staged.remove(what) == naive.remove(what)
    elif action == "match":
        assert staged.match(what) == naive.match(what)
    else:
        assert [sorted(ids) for ids in staged.match_many(what)] == [naive.match(event) for event in what]
    assert len(staged) == len(naive)
    assert [id in staged for id in "abcdef"] == [id in naive._filters for id in "abcdef"]


@given(STEPS, STEPS, STEPS, st.lists(events(), min_size=1, max_size=3))
@settings(max_examples=60, deadline=None)
def test_over_the_switch_answers_stay_those_of_the_naive_matcher(before, during, after, last):
    """Steps before, while the index is being built, and after it was taken."""
    staged, naive = StagedIndex(plain=True), NaiveMatcher()
    for step in before:
        do(staged, naive, *step)
    add_many = Index.add_many

    def slowly(index, subscriptions, checked=False):
        if threading.current_thread() is builder:
            count = add_many(index, list(subscriptions), checked)
            built.set()
            assert taken.wait(30)
            return count
        return add_many(index, subscriptions, checked)

    built, taken = threading.Event(), threading.Event()
    builder = threading.Thread(target=staged.compile)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Index, "add_many", slowly)
        builder.start()
        try:
            assert built.wait(30)
            assert not staged.is_compiled
            for step in during:
                do(staged, naive, *step)
        finally:
            taken.set()
            builder.join(30)
    assert staged.is_compiled
    for step in [*after, *(("match", event) for event in last)]:
        do(staged, naive, *step)


def test_threads_may_share_it_while_it_is_compiled():
    """Everybody adds, matches and removes its own; somebody compiles in the middle of it."""
    staged, wrong = StagedIndex(plain=True), []
    start = threading.Barrier(4)

    def work(name: str) -> None:
        start.wait()
        for number in range(150):
            id = f"{name}{number}"
            staged.add(Subscription(id, Compare(name, "==", number)))
            if staged.match(Event("e", attributes={name: number})) != [id]:
                wrong.append(id)
            if number % 3 and not staged.remove(id):
                wrong.append(f"{id} is gone")

    def compile() -> None:
        start.wait()
        staged.compile()

    threads = [threading.Thread(target=work, args=(name,)) for name in "xyz"] + [threading.Thread(target=compile)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert staged.is_compiled
    assert len(staged) == staged.statistics()["subscriptions"] == 150


def test_what_needs_the_compiled_index_gets_it():
    staged = StagedIndex(plain=True)
    staged.add(Subscription("a", parse("x == 1")))
    assert not staged.is_compiled
    assert "a" in staged.compiled
    assert staged.is_compiled
    assert staged.compiled is staged.compiled


def test_compiling_that_fails_leaves_it_as_it_was(monkeypatch):
    staged = StagedIndex(plain=True)
    staged.add(Subscription("a", parse("x == 1")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Index, "add_many", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            staged.compile()
    staged.remove("a")
    staged.add(Subscription("b", parse("x == 1")))
    staged.compile()
    assert staged.match(Event("e", attributes={"x": 1})) == ["b"]


@pytest.mark.parametrize("plain", [True, False])
def test_what_the_index_refuses_is_refused(plain):
    staged = StagedIndex(plain=plain)
    for bad in (Subscription("", parse("x == 1")), Subscription("a", Regex("x", "a" * 9999))):
        with pytest.raises(RecadoError):
            staged.add(bad)
    assert len(staged) == 0
