"""AODV and PAMPA beside ns-2 and ns-3 on the same placement and traffic; what scripts say and how traces are read."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from experiments.sensornetwork.peers import ns2, ns3, ours
from experiments.sensornetwork.peers.compare import (
    PAMPA_SIDES,
    SIDES,
    Comparison,
    compare_broadcasts,
    compare_routes_with_ns2,
    compare_routes_with_ns3,
)
from experiments.sensornetwork.peers.scene import broadcast_scene, line_scene
from recado.protocols.sensors import PAMPA_PROFILES, SensorSettings

needs_ns2 = pytest.mark.skipif(ns2.find_ns2() is None, reason="ns-2 is not installed: apt-get install ns2")
needs_ns3 = pytest.mark.skipif(ns3.find_ns3() is None, reason=f"ns-3 is not installed: apt-get install {ns3.PACKAGES}")
LINE = line_scene(3, tuple((10.0 + number, 0, 2) for number in range(6)))

TRACE = """\
s 10.000000000 _0_ AGT  --- 0 udp 64 [0 0 0 0] ------- [0:0 2:0 32 0]
r 10.000000000 _0_ RTR  --- 0 udp 64 [0 0 0 0] ------- [0:0 2:0 32 0]
s 10.000000000 _0_ RTR  --- 0 AODV 48 [0 0 0 0] ------- [0:255 -1:255 30 0] [0x2 1 1 [2 0] [0 4]] (REQUEST)
r 10.001 _1_ RTR  --- 0 AODV 48 [0 ffffffff 0 800] ------- [0:255 -1:255 30 0] [0x2 1 1 [2 0] [0 4]] (REQUEST)
s 10.002 _1_ RTR  --- 0 AODV 48 [0 ffffffff 0 800] ------- [1:255 -1:255 29 0] [0x2 2 1 [2 0] [0 4]] (REQUEST)
s 10.003 _2_ RTR  --- 0 AODV 44 [0 0 0 0] ------- [2:255 0:255 30 1] [0x4 1 [2 4] 10.000000] (REPLY)
f 10.004 _1_ RTR  --- 0 AODV 44 [13a 1 2 800] ------- [2:255 0:255 29 0] [0x4 2 [2 4] 10.000000] (REPLY)
s 10.005 _0_ RTR  --- 0 udp 84 [0 0 0 0] ------- [0:0 2:0 30 1]
f 10.006 _1_ RTR  --- 0 udp 84 [13a 1 0 800] ------- [0:0 2:0 29 2]
r 10.007 _2_ AGT  --- 0 udp 84 [13a 2 1 800] ------- [0:0 2:0 29 2]
"""


def test_what_a_trace_says(tmp_path):
    path = tmp_path / "a.tr"
    path.write_text(TRACE)
    count = ns2.read_aodv_trace(path)
    assert count.transmissions == {"aodv.rreq": 2, "aodv.rrep": 2, "data": 2}
    assert (count.arrived, count.hops, count.mean_hops) == (1, (2,), 2.0)


def test_scripts_have_places_sendings_and_parameters():
    script = ns2.aodv_script(LINE, 7, Path("x.tr"), expiry=False)
    assert "create-aodv-agent" in script
    assert "$n(2) set X_ 400.0" in script
    assert '$ns at 15.0 "$from(5) send 64"' in script
    assert "create-aodv-agent" not in ns2.aodv_script(LINE, 7, Path("x.tr"), expiry=True)
    script = ns2.pampa_script(broadcast_scene(1, 500.0, 20, 2), PAMPA_PROFILES["sparse"], 7, Path())
    assert "$copies($id) < 2" in script
    assert not any(word in script for word in ("COPIES", "LONGEST", "SPAN", "EDGE", "JITTER"))


@pytest.mark.parametrize("channel", ["ideal", "csma"])
def test_three_nodes_in_a_line(channel):
    count = ours.run_aodv(LINE, SensorSettings(), channel)
    assert count.transmissions == {"aodv.rreq": 2, "aodv.rrep": 2, "data.single": 12}
    assert count.hops == (2,) * 6


@needs_ns2
@pytest.mark.long
@pytest.mark.parametrize("expiry", [False, True])
def test_three_nodes_in_a_line_in_ns2(tmp_path, expiry):
    count = ns2.run_aodv(LINE, tmp_path, expiry=expiry)
    assert count.transmissions == {"aodv.rreq": 2, "aodv.rrep": 2, "data": 12}
    assert count.hops == (2,) * 6


def test_three_nodes_in_a_line_by_the_rfc():
    count = ours.run_aodv(LINE, ns3.SETTINGS, "csma")
    assert count.transmissions == {"aodv.rreq": 3, "aodv.rrep": 2, "data.single": 12}
    assert count.hops == (2,) * 6


def test_what_the_program_for_ns3_prints():
    count = ns3.read_counts("aodv.rreq 3\ndata 12\nhops 2 2 4\n")
    assert (count.program, count.transmissions, count.hops) == ("ns-3", {"aodv.rreq": 3, "data": 12}, (2, 2, 4))
    assert ns3.read_counts("hops\n").arrived == 0


def test_a_comparison_holds_within_its_limit():
    one = Comparison("AODV", "ns-2", "route requests", 100.0, 110.0, 100.0, 0.10)
    assert one.apart == pytest.approx(0.10)
    assert replace(one, mine=109.9).holds
    assert replace(one, mine=90.1).holds
    assert not replace(one, mine=111.0).holds
    assert not replace(one, mine=89.0).holds
    assert replace(one, mine=500.0, limit=None).holds


def assert_all_hold(found):
    assert not [f"{one.what}, {one.figure}: {one.theirs:g}, {one.mine:g}" for one in found if not one.holds]


@needs_ns2
@pytest.mark.long
@pytest.mark.parametrize("expiry", [False, True])
@pytest.mark.parametrize("side", SIDES)
def test_routes_cost_as_much_as_in_ns2(tmp_path, side, expiry):
    assert_all_hold(compare_routes_with_ns2(side, expiry, tmp_path))


@pytest.fixture(scope="module")
def ns3_program(tmp_path_factory):
    return ns3.build(tmp_path_factory.mktemp("ns3"))


@needs_ns3
@pytest.mark.long
def test_three_nodes_in_a_line_in_ns3(ns3_program):
    count = ns3.run_aodv(LINE, ns3_program)
    assert count.transmissions == {"aodv.rreq": 3, "aodv.rrep": 2, "data": 12}
    assert count.hops == (2,) * 6


@needs_ns3
@pytest.mark.long
@pytest.mark.parametrize("side", SIDES)
def test_routes_cost_as_much_as_in_ns3(ns3_program, side):
    assert_all_hold(compare_routes_with_ns3(side, ns3_program))


@needs_ns2
@pytest.mark.long
@pytest.mark.parametrize("profile", ["prototype", "sparse"])
@pytest.mark.parametrize("side", PAMPA_SIDES)
def test_broadcasts_take_as_many_transmissions_as_in_ns2(tmp_path, profile, side):
    assert_all_hold(compare_broadcasts(profile, side, tmp_path, range(1, 4)))
