"""Choosing rows by a filter agrees with the plain evaluator, and pruning never leaves out a match."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from recado.filters.evaluate import matches, names_of
from recado.filters.syntax import parse_filter
from recado.model.event import Event
from recado.model.limits import LIMITS, Limits
from recado.store.log.rows import prepare, stored, to_batch
from recado.store.log.segments import TYPE_CHARS, Statistics, choose, may_hold
from strategies import ENVELOPE_NAMES, filters, simple_predicates
from strategies import events as any_events


def batch_of(events, limits=LIMITS):
    return to_batch([stored(position, 0, entry) for position, entry in enumerate(prepare(events, limits))])


def segment_of(events):
    statistics = Statistics()
    statistics.add(batch_of(events[:1]))
    if len(events) > 1:
        statistics.add(batch_of(events[1:]))
    return statistics.entry("file", 0, len(events), 0, "").located(Path())


def envelope_filters():
    return filters().filter(lambda filter: names_of(filter) <= set(ENVELOPE_NAMES)) | simple_predicates()


@settings(max_examples=60)
@given(st.lists(any_events(), max_size=6), filters(sql=True) | envelope_filters())
def test_any_filter_chooses_what_the_plain_evaluator_does(events, where):
    chosen = choose(batch_of(events), where).column("position").to_pylist()
    assert chosen == [position for position, event in enumerate(events) if matches(where, event)]


@settings(max_examples=60)
@given(st.lists(any_events(), min_size=1, max_size=3), filters(sql=True) | envelope_filters())
def test_pruning_leaves_out_no_match(events, where):
    if not may_hold(segment_of(events), where):
        assert not any(matches(where, event) for event in events)


def test_pruning_by_type_and_time():
    segment = segment_of([Event("1", "alarm"), Event("2", "heat")])
    assert may_hold(segment, parse_filter("type == 'b'"))
    assert not may_hold(segment, parse_filter("type == 'z' and level > 3"))
    assert not may_hold(segment, parse_filter("exists time"))
    assert may_hold(segment, parse_filter("not exists time"))
    assert may_hold(segment, parse_filter("not exists level"))


def test_a_very_long_type_is_cut_and_still_found():
    long, longer = "t" * TYPE_CHARS + "a", "t" * TYPE_CHARS + "b"
    segment = segment_of([Event("1", longer), Event("2", long)])
    assert (segment.type_min, segment.type_max) == (long[:-1], None)
    assert may_hold(segment, parse_filter(f"type == '{long}'"))
    assert may_hold(segment, parse_filter(f"type == '{longer}'"))
    assert not may_hold(segment, parse_filter("type == 's'"))


def test_an_event_above_the_usual_limits_is_read_back():
    event = Event("1", attributes={f"a{number}": number for number in range(LIMITS.attributes + 1)})
    batch = batch_of([event], Limits(attributes=LIMITS.attributes + 1))
    assert choose(batch, parse_filter("a5 == 5")).num_rows == 1
