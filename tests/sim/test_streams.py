"""Streams: named, independent, and made only when they are used."""

from itertools import islice

import pytest

from recado.sim.kernel import lazy_stream, stream


def draws(rng, count=5):
    return [rng.random() for _ in range(count)]


def test_a_stream_is_known_by_its_name():
    assert draws(stream(1, "node", 17)) == draws(stream(1, "node", 17))


def test_recorded_seeds_go_on_to_replay():
    assert draws(stream(1, "loss"), 3) == [0.7040602827762874, 0.08001136718449608, 0.24602544504952328]


def test_other_names_are_other_streams():
    names = [(1,), (2,), (1, "a"), (1, "b"), (1, "a", 1), (1, "a", "1"), (1, "a1"), (11,), (1, 1), (1, "a", 1, 0)]
    assert len({tuple(draws(stream(*name))) for name in names}) == len(names)


def test_streams_do_not_follow_each_other():
    """Of 1,000 streams, the first draws are spread evenly: 100 in each tenth, give or take five deviations."""
    firsts = [stream(7, "node", node).random() for node in range(1000)]
    for tenth in range(10):
        assert 52 < sum(tenth / 10 <= first < (tenth + 1) / 10 for first in firsts) < 148


def test_a_lazy_stream_draws_the_same():
    lazy, plain = lazy_stream(3, "node", "a"), stream(3, "node", "a")
    for _ in range(3):
        assert lazy.random() == plain.random()
        assert lazy.randrange(100) == plain.randrange(100)
        assert lazy.uniform(1, 2) == plain.uniform(1, 2)
        assert lazy.expovariate(2.0) == plain.expovariate(2.0)
        assert lazy.choice("abc") == plain.choice("abc")
        assert lazy.sample(range(10), 3) == plain.sample(range(10), 3)
        assert lazy.gauss() == plain.gauss()


def test_a_lazy_stream_is_not_made_before_it_is_used(monkeypatch):
    made = []
    monkeypatch.setattr("recado.sim.kernel.stream", lambda *name: made.append(name) or stream(*name))
    several = [lazy_stream(1, "node", node) for node in range(3)]
    assert made == []
    first, again = (several[1].random() for _ in range(2))
    assert made == [(1, "node", 1)]
    assert [first, again] == list(islice(iter(stream(1, "node", 1).random, None), 2))


def test_it_has_no_other_attributes():
    with pytest.raises(AttributeError, match="nonsense"):
        lazy_stream(1).nonsense  # noqa: B018  # the access is the test
