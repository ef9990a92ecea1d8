"""Pictures of one moment."""

from xml.etree import ElementTree

import pytest

from recado.model.subscription import Subscription
from recado.protocols.registry import find_protocol
from recado.protocols.topology import NET_16
from recado.protocols.trees import TreeNode
from recado.sim.drawing.picture import Choice, Moment, draw_picture, moment_of
from recado.sim.recording import Header, NodeLine, Recorder, Recording, RecordingError, Sent, Up
from recado.sim.runs.run import record
from recado.sim.runs.scenario import parse_scenario
from recado.sim.system import System
from sim.drawing.test_page import EVIL, SENSORS, hostile


@pytest.fixture(scope="module")
def trees():
    recorder = Recorder(find_protocol("trees"))
    overlay = System(NET_16, TreeNode, watch=recorder, prepare=recorder.attach)
    overlay.become_publisher("B", "z")
    overlay.subscribe("K", Subscription("k", type="z"))
    before = overlay.simulation.now - 0.5
    overlay.unsubscribe("K", "k")
    return recorder.finish(title="Trees"), before


def parts(text, tag):
    return list(ElementTree.fromstring(text).iter(f"{{http://www.w3.org/2000/svg}}{tag}"))


def test_the_tree_of_a_subscription(trees):
    recording, before = trees
    held = Moment(recording, before).held(Choice("k"))
    assert set(held) == set("KJGFCB")
    text = draw_picture(recording, before, Choice("k"))
    assert len(parts(text, "polygon")) >= 5  # an arrow for each step
    assert "holds it (6)" in text
    assert Moment(recording, recording.header.end).held(Choice("k")) == {}
    assert draw_picture(recording, before, Choice("k")) == text


def test_a_moment_without_a_choice_shows_what_is_under_way(trees):
    recording, _ = trees
    first = next(recording.of(Sent))
    assert first.traffic_class in draw_picture(recording, first.t)
    assert first.traffic_class not in draw_picture(recording, recording.header.end)


def test_the_route_of_a_publication():
    recording = record(parse_scenario(SENSORS).runs()[0])
    event = next(line.event for line in recording.of(Sent) if line.traffic_class == "pampa.query")
    text = draw_picture(recording, recording.header.end, Choice(publication=event))
    assert "pampa.query" in text
    assert "pampa.sub" not in text


def test_texts_are_escaped():
    text = draw_picture(hostile(), 1.5)
    words = [part.text for part in parts(text, "text")]
    assert EVIL in words
    assert not parts(text, "script")


def test_what_is_not_there(trees):
    recording, _ = trees
    with pytest.raises(RecordingError, match="no subscription 'x'; it has k"):
        draw_picture(recording, 1.0, Choice("x"))
    with pytest.raises(RecordingError, match="no publication 'x'; it has none"):
        draw_picture(recording, 1.0, Choice(publication="x"))
    for time in ("-1", "soon", "nan", "1e9"):
        with pytest.raises(RecordingError, match="is no time of this run"):
            moment_of(recording, time)
    assert moment_of(recording, "end") == recording.header.end
    assert moment_of(recording, "1.5") == 1.5


def test_a_node_alone():
    assert parts(draw_picture(Recording(Header(1, "one"), (NodeLine("a"), Up(0.0, "a"))), 0.0), "circle")
