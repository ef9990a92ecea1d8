"""Frames come out whole, however the stream was cut, and a hostile length costs nothing."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recado.overlay.hello import HEADER_BYTES, Frame, FrameDecoder, header
from recado.overlay.limits import LinkError
from recado.protocols.trees import PROTOCOL
from recado.protocols.trees.messages import Interest, Q
from recado.protocols.wire import wire_size

FRAMES = st.lists(st.builds(Frame, st.booleans(), st.binary(max_size=40)), max_size=8)


def stream(frames):
    return b"".join(header(frame.payload, control=frame.control) + frame.payload for frame in frames)


@given(FRAMES, st.lists(st.integers(0, 400), max_size=12))
def test_any_cut_of_the_stream_gives_the_same_frames(frames, cuts):
    data = stream(frames)
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    decoder = FrameDecoder(40)
    found = []
    for start, end in pairwise(places):
        decoder.feed(data[start:end])
        found += decoder.frames()
    assert found == frames
    assert decoder.waiting == 0


@given(FRAMES, st.binary(min_size=1, max_size=3))
def test_a_rest_waits(frames, rest):
    decoder = FrameDecoder(40)
    decoder.feed(stream(frames) + rest)
    assert list(decoder.frames()) == frames
    assert decoder.waiting == len(rest)


def test_a_length_above_the_limit_is_refused_by_its_header_alone():
    decoder = FrameDecoder(100)
    decoder.feed((101).to_bytes(4, "big"))
    with pytest.raises(LinkError, match="claims 101 bytes and the limit here is 100"):
        decoder.next()


def test_the_limit_may_grow_between_two_frames():
    small, large = b"x" * 10, b"y" * 1000
    decoder = FrameDecoder(10)
    decoder.feed(header(small) + small + header(large) + large)
    assert decoder.next() == Frame(False, small)
    decoder.limit = 1000
    assert decoder.next() == Frame(False, large)


@given(st.binary(max_size=200))
def test_garbage_gives_frames_or_a_link_error_and_never_more_than_it_has(garbage):
    decoder = FrameDecoder(64)
    decoder.feed(garbage)
    try:
        found = list(decoder.frames())
    except LinkError:
        return
    assert sum(HEADER_BYTES + len(frame.payload) for frame in found) + decoder.waiting == len(garbage)


def test_the_simulator_counts_what_is_sent():
    assert len(header(b"")) == HEADER_BYTES
    message = Q(Interest("s-1", 1, "Tick", "Price < 25"))
    payload = PROTOCOL.configure({}).encode(message)
    assert len(header(payload) + payload) == wire_size(message)
    assert PROTOCOL.configure({}).decode(payload) == message
