"""What a recording has of a run, that it is bounded, and that a file gives it back."""

import msgspec
import pytest

from recado.filters.expression import parse
from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.protocols.machine import Asked, Broadcast, Deliver, Received, Send, SetTimer, TimerFired
from recado.protocols.pubsub import Notified, Publish, Sketch, Subscribe, sketch_node
from recado.protocols.registry import find_protocol
from recado.protocols.topology import NET_16, line
from recado.protocols.trees import TreeNode
from recado.sim.faults import Cuts, Loss, Outages
from recado.sim.kernel import Simulation, stream
from recado.sim.network import UnitDelay
from recado.sim.radio import IdealRadio, line_places
from recado.sim.recording import (
    Delivered,
    Down,
    Drop,
    Hold,
    LinkLine,
    Move,
    NodeLine,
    Published,
    Recorder,
    RecordingError,
    Role,
    Sent,
    Subscribed,
    Ties,
    Up,
    describe_event,
    read_recording,
    write_recording,
)
from recado.sim.runs.run import ScenarioRun, record, seed_of
from recado.sim.runs.scenario import parse_scenario
from recado.sim.system import System


class Wave(msgspec.Struct, frozen=True):
    event: Event


class Word(msgspec.Struct, frozen=True):
    text: str


class Shouter:
    """Broadcasts what it hears for the first time; asks the first neighbour something before it does."""

    def __init__(self, me):
        self.me, self.heard = me, {}

    def handle(self, stimulus, now, rng):
        match stimulus:
            case Asked(Publish(event)):
                return self.hear(event)
            case Received(sender, Wave(event)) if event.id not in self.heard:
                return [*self.hear(event), Send(sender, Word("thanks"), "good manners")]
            case TimerFired(id):
                return [Broadcast(Wave(self.heard[id]), "the first copy goes on")]
        return ()

    def hear(self, event):
        self.heard[event.id] = event
        return [Deliver(Notified(event, ("s",))), SetTimer(event.id, 0.01)]

    def inspect(self):
        return {"role": "heard" if self.heard else "silent"}


def shout(nodes=4, *, wrap=None, **options):
    recorder = Recorder(size_of=lambda message: 10, **options)
    radio = IdealRadio(line_places(range(nodes), 200.0), stream(1, "radio"))
    simulation = Simulation(wrap(radio) if wrap else radio, watch=recorder)
    recorder.attach(simulation)
    for node in range(nodes):
        simulation.add(node, Shouter(node))
    return simulation, recorder, radio


def test_what_was_sent_and_who_heard_it():
    simulation, recorder, _ = shout(4)
    simulation.ask(0, Publish(Event("e1", "t", attributes={"v": 0.1234567})), at=5.0)
    simulation.run()
    recording = recorder.finish(title="shouts")
    assert [(line.name, line.x) for line in recording.of(NodeLine)] == [(str(n), 200.0 * n) for n in range(4)]
    assert [line.node for line in recording.of(Up)] == ["0", "1", "2", "3"]
    waves = [line for line in recording.of(Sent) if line.kind == "Wave"]
    assert {wave.node: set(wave.heard) for wave in waves} == {
        "0": {"1"}, "1": {"0", "2"}, "2": {"1", "3"}, "3": {"2"},
    }  # fmt: skip
    assert {wave.to for wave in waves} == {None}
    assert all(wave.arrived > wave.t and wave.reached == len(wave.heard) for wave in waves)
    assert [line.number for line in waves] == [1, 2, 3, 4]
    assert [(line.t, line.node, line.id, line.text) for line in recording.of(Published)] == [
        (5.0, "0", "e1", "t v = 0.123457")
    ]
    assert [line.node for line in recording.of(Delivered)] == ["0", "1", "2", "3"]
    assert {line.role for line in recording.of(Role)} == {"silent", "heard"}
    assert recording.header.range_metres == 250.0
    assert {name: total.count for name, total in recording.header.totals.items()} == {"Wave": 4, "Word": 3}
    assert recording.header.totals["Wave"].bytes == 40


def test_what_carries_no_event_is_about_what_led_to_it():
    simulation, recorder, _ = shout(3)
    simulation.ask(0, Publish(Event("e1")), at=1.0)
    simulation.ask(2, Publish(Event("e2")), at=9.0)
    simulation.run()
    words = [line for line in recorder.finish().of(Sent) if line.kind == "Word"]
    assert [(word.event, word.node, word.to, word.why) for word in words] == [
        ("e1", "1", "0", "good manners"), ("e1", "2", "1", "good manners"),
        ("e2", "1", "2", "good manners"), ("e2", "0", "1", "good manners"),
    ]  # fmt: skip


def test_what_is_lost_reached_nobody():
    simulation, recorder, _ = shout(2, wrap=lambda radio: Loss(radio, 1.0, stream(1, "loss")))
    simulation.ask(0, Publish(Event("e")), at=1.0)
    simulation.run()
    (wave,) = recorder.finish().of(Sent)
    assert (wave.arrived, wave.reached, wave.heard) == (None, 0, ())


def test_crashes_and_moves():
    simulation, recorder, radio = shout(3)
    simulation.at(3.0, lambda: simulation.crash(1))
    simulation.at(4.0, lambda: radio.move(2, (150.0, 90.0)))
    simulation.ask(0, Publish(Event("e")), at=6.0)
    simulation.run()
    recording = recorder.finish()
    assert [(line.t, line.node) for line in recording.of(Down)] == [(3.0, "1")]
    assert [(line.node, line.x, line.y) for line in recording.of(Move)] == [("2", 150.0, 90.0)]
    assert [line.heard for line in recording.of(Sent) if line.node == "0" and line.kind == "Wave"] == [("2",)]


def test_rows_of_trees_are_held_and_dropped():
    recorder = Recorder(find_protocol("trees"))
    overlay = System(NET_16, TreeNode, watch=recorder, prepare=recorder.attach)
    overlay.become_publisher("B", "z")
    overlay.subscribe("K", Subscription("k", type="z"))
    overlay.unsubscribe("K", "k")
    recording = recorder.finish()
    held = {line.node: line.to for line in recording.of(Hold)}
    assert held == {"K": (), "J": ("K",), "G": ("J",), "F": ("G",), "C": ("F",), "B": ("C",)}
    assert {line.node for line in recording.of(Drop)} == set(held)
    assert len(list(recording.of(LinkLine))) == len(NET_16.edges)
    assert [(line.id, line.text) for line in recording.of(Subscribed)] == [("k", 'type == "z"')]
    assert {line.role for line in recording.of(Role)} == {"idle", "relay", "publisher", "subscriber"}
    questions = [line for line in recording.of(Sent) if line.kind == "Q"]
    assert {line.subscription for line in questions} == {"k"}


def test_links_that_fail_are_seen():
    recorder, cuts = Recorder(), Cuts(UnitDelay())
    overlay = System(line(3), TreeNode, cuts, watch=recorder, prepare=recorder.attach)
    outages = Outages(overlay.simulation, line(3), TreeNode, cuts, 0.5)
    overlay.simulation.at(2.0, lambda: outages.cut(0, 1))
    overlay.simulation.at(4.0, lambda: outages.heal(0, 1))
    overlay.run_until_quiet()
    lines = [(one.t, one.first, one.second, one.up) for one in recorder.finish().of(LinkLine) if one.t > 0]
    assert lines == [(2.5, "0", "1", False), (4.5, "0", "1", True)]


SUPER_NODES = """
protocol = "super-nodes"
[topology]
kind = "star"
nodes = 12
[workload]
subscriptions = 12
filters = "range"
overlap = 1.0
operations = 5
"""


def test_super_nodes_are_drawn_as_families():
    (run,) = parse_scenario(SUPER_NODES).runs()
    recording = record(run)
    roles = {line.node: line.role for line in recording.of(Role)}
    assert {"super node", "child"} <= set(roles.values())
    last = {line.node: line.to for line in recording.of(Ties)}
    fathers = {node: ties for node, ties in last.items() if ties}
    assert fathers
    assert all(roles[father] == "super node" for (father,) in fathers.values())
    assert {node for node, role in roles.items() if role == "child"} == set(fathers)
    assert not list(recording.of(LinkLine))  # they know each other; that is no link
    assert {"events", "keep-alive"} <= set(recording.header.totals)


def test_a_subscription_at_super_nodes_is_held_by_the_family_of_its_filter():
    (run,) = parse_scenario(SUPER_NODES).runs()
    recording = record(run)
    holders: dict[str, set[str]] = {}
    for held in recording.of(Hold):
        holders.setdefault(held.subscription, set()).add(held.node)
    subscribed = {line.id: line.node for line in recording.of(Subscribed)}
    assert subscribed
    for id, node in subscribed.items():
        assert node in holders[id]
    texts = {line.id: line.text for line in recording.of(Subscribed)}
    same = [(one, two) for one in texts for two in texts if one < two and texts[one] == texts[two]]
    assert same
    assert all(holders[one] == holders[two] for one, two in same)


TREES = """
[topology]
nodes = 12
[workload]
operations = 8
subscriptions = 4
"""


def test_a_recorded_run_is_the_run():
    (run,) = parse_scenario(TREES).runs()
    plain = ScenarioRun(run.setting, seed_of(run))
    plain.execute()
    recording = record(run)
    sent = {kind.__name__: (sent.count, sent.bytes) for kind, sent in plain.simulation.sent.items()}
    assert {name: (total.count, total.bytes) for name, total in recording.header.totals.items()} == sent
    assert recording.header.deliveries == len(plain.system.deliveries)
    assert record(run) == recording


def test_a_class_that_is_too_large_is_thinned_and_still_counted():
    (run,) = parse_scenario(TREES).runs()
    whole, thin = record(run), record(run, limit=60)
    kept = list(thin.of(Sent))
    assert len(kept) <= 60 < len(list(whole.of(Sent)))
    assert {name: total.count for name, total in thin.header.totals.items()} == {
        name: total.count for name, total in whole.header.totals.items()
    }
    numbers = {(line.traffic_class, line.number): line.t for line in whole.of(Sent)}
    assert all(numbers[line.traffic_class, line.number] == line.t for line in kept)
    for name, total in thin.header.totals.items():
        mine = [line.number for line in kept if line.traffic_class == name]
        assert mine == list(range(1, total.count + 1, total.every))
    assert any("transmissions was kept" in note for note in thin.header.notes)


def test_lines_beyond_the_limit_are_told():
    simulation, recorder, _ = shout(8, limit=3)
    simulation.ask(0, Publish(Event("e")), at=1.0)
    simulation.run()
    recording = recorder.finish()
    assert len(list(recording.of(NodeLine))) == 8
    assert len(list(recording.of(Delivered))) == 3
    assert recording.header.deliveries == 8
    assert "5 lines about delivery were not kept" in " ".join(recording.header.notes)
    with pytest.raises(RecordingError, match="at least one transmission, not 0"):
        Recorder(limit=0)


def test_subscriptions_of_two_nodes_with_one_id_are_told_apart():
    recorder = Recorder(find_protocol("trees"))
    overlay = System(line(3), TreeNode, watch=recorder, prepare=recorder.attach)
    for node in (0, 2):
        overlay.simulation.ask(node, Subscribe(Subscription("s", parse("v > 1"))))
    overlay.run_until_quiet()
    assert [(one.node, one.id) for one in recorder.finish().of(Subscribed)] == [("0", "s"), ("2", "s of 2")]


def test_copies_in_a_sensor_network_have_the_names_of_subscriptions():
    protocol = find_protocol("sensor-network")
    recorder = Recorder(protocol)
    simulation = Simulation(IdealRadio(line_places(range(8), 200.0), stream(1, "radio")), watch=recorder)
    recorder.attach(simulation)
    make = protocol.configure({}).protocol.make(protocol.settings(), None)
    for node in range(8):
        simulation.add(node, make(node))
    simulation.ask(0, Subscribe(Subscription("wet", parse("humidity > 70"))), at=1.0)
    simulation.ask(5, Publish(Event("e", attributes={"humidity": 80})), at=10.0)
    simulation.run(until=60.0)
    recording = recorder.finish()
    assert {line.node: line.subscription for line in recording.of(Hold)} == {"0": "wet", "3": "wet", "6": "wet"}
    sent = {name: total.count for name, total in recording.header.totals.items()}
    assert sent["pampa.sub"] == 8  # vector 1
    assert sent["aodv.rreq"] == 7  # vector 2
    assert {line.event for line in recording.of(Sent) if line.traffic_class.startswith("aodv")} == {"e"}


def test_a_sketch_of_plain_state():
    assert sketch_node({}) == Sketch("idle")
    assert sketch_node({"publishes": ["t"], "subscriptions": {"s": {}}}).role == "publisher and subscriber"
    assert sketch_node({"role": "odd", "node": 1, "tables": {"t": {"s": {"next": [1, 2]}}}}) == Sketch(
        "odd", (), {"s": ("2",)}
    )


def test_long_texts_are_cut():
    assert len(describe_event(Event("e", attributes={"a": "x" * 1000}))) == 300


def test_a_file_gives_the_recording_back(tmp_path):
    (run,) = parse_scenario(TREES).runs()
    recording = record(run)
    write_recording(recording, tmp_path / "deep" / "run.ndjson")
    assert read_recording(tmp_path / "deep" / "run.ndjson") == recording


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it is empty"),
        ('{"is":"node","name":"a"}\n', "does not begin as a recording does"),
        ("nonsense\n", "line 1: no line of a recording"),
        ("\xff\n", "line 1: no line of a recording"),
        ('{"is":"recording","version":2,"title":""}\n', "of version 2; this Recado reads version 1"),
        ('{"is":"recording","version":1,"title":""}\n' * 2, "line 2: a second header"),
        ('{"is":"recording","version":1,"title":""}\n{"is":"up","t":0,"node":"a"}\n', "line 2: there is no node 'a'"),
        ('{"is":"recording","version":1,"title":""}\n{"is":"up","t":"x","node":"a"}\n', "line 2: no line of a rec"),
    ],
)
def test_files_that_are_none(tmp_path, text, says):
    path = tmp_path / "run.ndjson"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(RecordingError, match=says):
        read_recording(path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(RecordingError, match="cannot be read"):
        read_recording(tmp_path / "none.ndjson")
