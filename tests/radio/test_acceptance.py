"""What the specification asks of the live network (section 16), in small; the long tests do the same in large."""

from collections import Counter

import pytest

from protocols.sensors.world import World
from radio.live import Traffic, kill, line_scene, living, publish, served_scene, subscribe
from recado.overlay.limits import OverlayError
from recado.radio.launch import start
from recado.radio.scene import MEDIUM, Placement, Scene, SceneNode, check_scene


def cost(client, action, *values):
    before = client.transmissions()
    action(client, *values)
    client.wait_until_quiet()
    return client.transmissions() - before


def check_counters(client):
    """What nodes say that they sent is what the medium carried."""
    assert client.sent() == client.transmissions()
    assert not client.ask("medium", "count")["dropped"]


@pytest.fixture(scope="module")
def line():
    scene = line_scene(8, factor=5.0)
    with living(scene) as client:
        client.scene = scene
        client.first_cost = cost(client, subscribe, "n0")
        yield client


def test_1_the_first_vector_as_the_medium_counts_it(line):
    assert line.first_cost == {"pampa.sub": 8}
    shown = line.ask_all("show")
    assert [node for node, one in shown.items() if one["machine"]["data_zone"]] == ["n0", "n3", "n6"]
    check_counters(line)


def test_1_the_second_vector_as_the_medium_counts_it(line):
    first = cost(line, publish, "n5", "first")
    assert first == {"pampa.query": 3, "pcache.reply": 3, "aodv.rreq": 7, "aodv.rrep": 5, "data.single": 5}
    second = cost(line, publish, "n5", "second")
    assert second == {"pampa.query": 3, "pcache.reply": 3, "data.single": 5}
    assert line.deliveries() == {("first", "n0"), ("second", "n0")}
    (sample, _) = line.ask("n0", "samples")["samples"]
    assert (sample["node"], sample["hops"]) == ("n5", 5)
    check_counters(line)


def test_a_sample_that_fits_into_no_frame_is_refused_and_the_node_lives(line):
    with pytest.raises(OverlayError, match="a sample has at most 65,536"):
        publish(line, "n5", "long", a1=1, text=["x" * 60_000, "y" * 60_000])
    publish(line, "n5", "longest", a1=1, text="x" * 60_000)
    line.wait_until_quiet()
    assert ("longest", "n0") in line.deliveries()
    assert line.ask("n5", "count")["too_long"] == 0
    check_counters(line)


def test_4_nobody_holds_all_subscriptions(line):
    for node in ("n2", "n7"):
        subscribe(line, node, "a9 > 5")
    line.wait_until_quiet()
    held = {node: len(one["machine"]["data_zone"]) for node, one in line.ask_all("show").items()}
    assert max(held.values()) < 3
    assert sum(held.values()) >= 3


def test_5_who_is_cut_off_is_missed_and_served_again(line):
    publish(line, "n6", "before")
    line.wait_until_quiet()
    line.ask("medium", "fault", cut=["n4", "n5", "n6", "n7"])
    publish(line, "n6", "cut")
    publish(line, "n1", "near")
    line.wait_until_quiet()
    got = line.deliveries()
    assert ("cut", "n0") not in got
    assert ("near", "n0") in got
    line.ask("medium", "fault", heal=True)
    publish(line, "n6", "healed")
    line.wait_until_quiet()
    assert ("healed", "n0") in line.deliveries()
    check_counters(line)


def test_7_a_relay_is_killed_and_comes_back_empty(line):
    publish(line, "n5", "whole")
    line.wait_until_quiet()
    kill(line, "n3")
    publish(line, "n1", "beside")
    publish(line, "n5", "beyond")
    line.wait_until_quiet()
    got = line.deliveries()
    assert ("beside", "n0") in got
    assert ("beyond", "n0") not in got
    assert "n3" not in line.ask_all("count")
    assert start(line.scene) == ["n3"]
    state = line.ask("n3", "show")["machine"]
    assert (state["data_zone"], state["routes"], state["subscriptions"]) == ([], [], {})
    publish(line, "n5", "again")
    line.wait_until_quiet()
    assert ("again", "n0") in line.deliveries()


def quick(nodes, seed):
    return Traffic(nodes, seed, subscriptions=4, publications=8)


def check_against_the_simulator(scene, traffic, expected, apart):
    with living(scene) as client:
        pairs, sent = traffic.live(client, scene.factor, apart)
        check_counters(client)
        shown = client.ask_all("show")
    assert pairs == traffic.due()
    total, wanted = sum(sent.values()), sum(expected.values())
    assert abs(total - wanted) <= 0.15 * wanted, (total, wanted, dict(sent), expected)
    print(f"{len(pairs)} notifications; transmissions: {total} live, {wanted:.0f} simulated")
    return shown, sent


def test_2_and_3_the_same_pairs_and_transmissions_as_simulated():
    scene, traffic, expected = served_scene("field", 10, 500.0, quick, 0.3, {"pampa": "sparse", "pace_seconds": 0.3})
    assert len(traffic.due()) >= 3
    check_against_the_simulator(scene, traffic, expected, 0.3)


# --- In large --------------------------------------------------------------------------------------------------------


def large(nodes, seed):
    return Traffic(nodes, seed, subscriptions=20, publications=60)


@pytest.mark.long
@pytest.mark.parametrize("pampa", ["prototype", "sparse"])
def test_1_to_3_the_vectors_with_both_profiles(pampa):
    with living(line_scene(8, settings={"pampa": pampa})) as client:
        assert cost(client, subscribe, "n0") == {"pampa.sub": 8}
        for origin, queries, replies in (("n1", 3, 3), ("n7", 2, 1)):
            found = cost(client, publish, origin, f"from {origin}")
            assert (found["pampa.query"], found["pcache.reply"]) == (queries, replies)
    with living(line_scene(8, settings={"pampa": pampa, "aodv": "rfc3561"})) as client:
        cost(client, subscribe, "n0")
        assert cost(client, publish, "n5", "e")["aodv.rreq"] == 13
    for aodv, requests in (("ns2", 2), ("rfc3561", 3)):
        with living(line_scene(3, settings={"pampa": pampa, "aodv": aodv})) as client:
            cost(client, subscribe, "n2")
            first = cost(client, publish, "n0", "e0")
            assert (first["aodv.rreq"], first["aodv.rrep"], first["data.single"]) == (requests, 2, 2)


@pytest.mark.long
@pytest.mark.parametrize(
    ("side", "settings"),
    [(800.0, {}), (800.0, {"hold_mode": "db"}), (500.0, {"pampa": "sparse"})],
    ids=["prototype", "by decibels", "sparse"],
)
def test_2_and_3_in_a_field_of_thirty(side, settings):
    """The profile that spares most relays serves only dense fields completely."""
    scene, traffic, expected = served_scene("thirty", 30, side, large, 0.3, {**settings, "pace_seconds": 0.3})
    shown, _ = check_against_the_simulator(scene, traffic, expected, 0.3)
    assert max(len(one["machine"]["data_zone"]) for one in shown.values()) < len(traffic.subscriptions)


@pytest.mark.long
def test_2_and_3_with_a_hundred_nodes():
    def traffic_of(nodes, seed):
        return Traffic(nodes, seed, subscriptions=20, publications=30)

    scene, traffic, expected = served_scene(
        "hundred", 100, 1000.0, traffic_of, 0.3, {"hold_mode": "db", "pace_seconds": 0.3}
    )
    shown, _ = check_against_the_simulator(scene, traffic, expected, 0.3)
    assert len(shown) == 100
    assert max(len(one["machine"]["data_zone"]) for one in shown.values()) < len(traffic.subscriptions)


@pytest.mark.long
@pytest.mark.parametrize("retry", ["on", "off"])
def test_6_a_tenth_of_the_frames_is_lost(retry):
    def traffic_of(nodes, seed):
        return Traffic(nodes, seed, subscriptions=10, publications=40)

    settings = {"hold_mode": "db", "rreq_retry": retry, "pace_seconds": 0.3}
    scene, traffic, _ = served_scene("lossy", 25, 700.0, traffic_of, 0.3, settings)
    with living(scene) as client:
        client.ask("medium", "fault", loss=0.1)
        got, _ = traffic.live(client, scene.factor, 0.3)  # raises if anybody is notified twice
        check_counters(client)
        assert client.ask("medium", "count")["counts"]["lost"] > 0
    print(f"rreq_retry {retry}: {len(got)} of {len(traffic.due())} notifications")
    assert got <= traffic.due()
    assert len(got) >= 0.6 * len(traffic.due()), (len(got), len(traffic.due()))


@pytest.mark.long
def test_7_nodes_are_killed_while_others_publish():
    def traffic_of(nodes, seed):
        return Traffic(nodes, seed, subscriptions=8, publications=30, publishers=nodes[:5])

    scene, traffic, _ = served_scene("killed", 25, 700.0, traffic_of, 0.3, {"hold_mode": "db", "repair": "source"})
    spared = {*traffic.subscriptions, *(node for _, node, _ in traffic.publications)}
    victims = [node for node in scene.places() if node not in spared][:4]
    with living(scene) as client:
        for node in victims[:2]:
            kill(client, node)
        got, _ = traffic.live(client, scene.factor, 0.3)
        assert got <= traffic.due()
        assert len(got) >= 0.7 * len(traffic.due())
        for node in victims[2:]:
            kill(client, node)
        assert sorted(start(scene)) == sorted(victims)
        assert len(client.ask_all("count")) == len(scene.places())
        publish(client, victims[0], "from one that is back", a1=4, a2=4)
        client.wait_until_quiet()


def test_the_simulated_twin_counts_as_the_vectors_do():
    world = World(line_scene(8).places())
    world.subscribe("n0")
    world.run()
    assert world.sent == Counter({"pampa.sub": 8})


def test_what_a_scene_begins_with_is_announced_when_everybody_is_there():
    names = [f"n{number}" for number in range(12)]
    scene = check_scene(
        Scene(
            "begin",
            placement=Placement("line", nodes=len(names), apart=10.0),
            nodes={name: SceneNode(subscribes=("a1 >= 1",)) for name in names[:3]},
        )
    )
    with living(scene) as client:
        client.wait_until_quiet()
        assert "absent" not in client.ask(MEDIUM, "show")["counts"]
        publish(client, "n11", "e1", a1=5)
        client.wait_until_quiet()
        assert client.deliveries() == {("e1", "n0"), ("e1", "n1"), ("e1", "n2")}
        kill(client, "n1")
        assert start(scene) == ["n1"]
        assert list(client.ask("n1", "show")["machine"]["subscriptions"]) == ["n1-1"]
