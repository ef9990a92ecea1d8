"""The same in ns-2: scripts for it, and what its traces say. Debian has it as ``ns2``; its program is ``ns``."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from experiments.sensornetwork.peers.scene import PAYLOAD_BYTES, Count, Scene
from recado.protocols.sensors import PampaParameters
from recado.sim.radio import CROSSOVER_METRES, POWER_WATTS, WAVELENGTH_METRES

TIMEOUT_SECONDS = 900


def find_ns2() -> str | None:
    """Where its program is; None if it is not installed."""
    return shutil.which("ns")


HEAD = """\
set ns [new Simulator]
$ns use-scheduler Heap
ns-random {seed}
Mac/802_11 set dataRate_ 11Mb
Mac/802_11 set basicRate_ 1Mb
Phy/WirelessPhy set CPThresh_ 10.0
Phy/WirelessPhy set CSThresh_ 1.559e-11
Phy/WirelessPhy set RXThresh_ 3.652e-10
Phy/WirelessPhy set Pt_ 0.28183815
Phy/WirelessPhy set freq_ 914e+6
set traced [open "{trace}" w]
$ns trace-all $traced
set topo [new Topography]
$topo load_flatgrid {side} {side}
create-god {count}
$ns node-config -adhocRouting {routing} -llType LL -macType Mac/802_11 -ifqType Queue/DropTail/PriQueue \\
    -ifqLen 50 -antType Antenna/OmniAntenna -propType Propagation/TwoRayGround -phyType Phy/WirelessPhy \\
    -channel [new Channel/WirelessChannel] -topoInstance $topo -agentTrace ON -routerTrace ON -macTrace OFF
for {{set i 0}} {{$i < {count}}} {{incr i}} {{
    set n($i) [$ns node]
    $n($i) random-motion 0
}}
"""

NO_EXPIRY = """\
Simulator instproc create-aodv-agent {node} {
    set agent [new Agent/AODV [$node node-addr]]
    $node set ragent_ $agent
    return $agent
}
"""
"""Without its start, the agent arms no timer: no route is too old, and no request is repeated."""

TAIL = """\
$ns at {end} "finish"
proc finish {{}} {{
    global ns traced
    $ns flush-trace
    close $traced
    exit 0
}}
$ns run
"""


def _begin(scene: Scene, seed: int, trace: Path, routing: str) -> str:
    side = max(max(place) for place in scene.places) + 10.0
    head = HEAD.format(seed=seed, trace=trace, side=int(side) + 1, count=len(scene.places), routing=routing)
    places = [f"$n({i}) set X_ {x}\n$n({i}) set Y_ {y}\n$n({i}) set Z_ 0\n" for i, (x, y) in enumerate(scene.places)]
    return head + "".join(places)


def _run(script: str, folder: Path, name: str) -> None:
    path = folder / f"{name}.tcl"
    path.write_text(script)
    ns2 = find_ns2()
    assert ns2 is not None
    command = [ns2, path.name]
    done = subprocess.run(  # noqa: S603  # a program of the system, with a script that was just written
        command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
    )
    if done.returncode:
        raise RuntimeError(f"ns-2 failed with {path}: {done.stderr[-2000:]}")


# --- AODV -------------------------------------------------------------------------------------------------------------

CLASSES = {"REQUEST": "aodv.rreq", "REPLY": "aodv.rrep", "ERROR": "aodv.rerr"}
LINE = re.compile(r"^(\S) (\S+) _(\d+)_ (\w+)\s+\S+ (\d+) (\w+) ")
KIND = re.compile(r"\((REQUEST|REPLY|ERROR)\)")


def aodv_script(scene: Scene, seed: int, trace: Path, *, expiry: bool) -> str:
    """One datagram for every sending, from an agent of its own."""
    lines = [] if expiry else [NO_EXPIRY]
    lines.append(_begin(scene, seed, trace, "AODV"))
    for number, (time, src, dst) in enumerate(scene.sends):
        lines.append(
            f"set from({number}) [new Agent/UDP]\nset to({number}) [new Agent/Null]\n"
            f"$ns attach-agent $n({src}) $from({number})\n$ns attach-agent $n({dst}) $to({number})\n"
            f"$ns connect $from({number}) $to({number})\n"
            f'$ns at {time} "$from({number}) send {PAYLOAD_BYTES}"\n'
        )
    return "".join(lines) + TAIL.format(end=scene.end)


def read_aodv_trace(path: Path) -> Count:
    """Every packet that the routing layer of a node gave to its link; hops of a packet are the times it was given."""
    transmissions: dict[str, int] = {}
    given: dict[int, int] = {}
    arrived: dict[int, None] = {}
    with path.open() as lines:
        for line in lines:
            found = LINE.match(line)
            if found is None:
                continue
            event, _, _, level, packet, kind = found.groups()
            if level == "AGT" and event == "r" and kind != "AODV":
                arrived[int(packet)] = None
            if level != "RTR" or event not in "sf":
                continue
            if kind == "AODV":
                name = KIND.search(line)
                word = CLASSES[name[1]] if name else "aodv.other"
            else:
                word = "data"
                given[int(packet)] = given.get(int(packet), 0) + 1
            transmissions[word] = transmissions.get(word, 0) + 1
    return Count("ns-2", transmissions, len(arrived), tuple(given[packet] for packet in arrived))


def run_aodv(scene: Scene, folder: Path, *, expiry: bool, seed: int = 1) -> Count:
    name = "aodv-expiry" if expiry else "aodv"
    trace = folder / f"{name}.tr"
    _run(aodv_script(scene, seed, trace, expiry=expiry), folder, name)
    return read_aodv_trace(trace)


# --- PAMPA ------------------------------------------------------------------------------------------------------------
#
# An agent of its own in OTcl on the 802.11 of ns-2. A script does not learn the strength of what it hears, so it works
# it out from the places, by the same two-ray ground.

PAMPA = """\
set port 42
set sent 0
set heard 0
Class Agent/MessagePassing/Pampa -superclass Agent/MessagePassing
Agent/MessagePassing/Pampa instproc begin {id} {
    $self instvar done
    set done($id) 1
    $self pass_on $id
}
Agent/MessagePassing/Pampa instproc pass_on {id} {
    global port sent
    $self instvar me
    incr sent
    $self sendto SIZE "$id:$me" -1 $port
}
Agent/MessagePassing/Pampa instproc recv {source sport size data} {
    global ns heard
    $self instvar me done copies
    set parts [split $data ":"]
    set id [lindex $parts 0]
    if {[info exists done($id)]} { return }
    if {[info exists copies($id)]} { incr copies($id); return }
    set copies($id) 1
    incr heard
    $ns at [expr [$ns now] + [hold [lindex $parts 1] $me]] "$self decide $id"
}
Agent/MessagePassing/Pampa instproc decide {id} {
    $self instvar done copies
    set done($id) 1
    if {$copies($id) < COPIES} { $self pass_on $id }
}
proc watts {from to} {
    global n
    set dx [expr [$n($from) set X_] - [$n($to) set X_]]
    set dy [expr [$n($from) set Y_] - [$n($to) set Y_]]
    set d [expr sqrt($dx * $dx + $dy * $dy)]
    if {$d < 0.001} { set d 0.001 }
    if {$d < CROSSOVER} { return [expr POWER * pow(WAVELENGTH / (4 * 3.141592653589793 * $d), 2)] }
    return [expr POWER * pow(1.5, 4) / pow($d, 4)]
}
set drawn [new RNG]
$drawn seed SEED
proc jitter {} {
    global drawn
    return [$drawn uniform 0 JITTER]
}
"""
LINEAR = """\
proc hold {from to} {
    set h [expr FACTOR * [watts $from $to]]
    if {$h <= LONGEST} { return $h }
    return [expr LONGEST + [jitter]]
}
"""
DB = """\
proc hold {from to} {
    set share [expr (10 * log10([watts $from $to] * 1000) - EDGE) / SPAN]
    if {$share < 0} { set share 0 }
    if {$share > 1} { set share 1 }
    return [expr LONGEST * $share + [jitter]]
}
"""
COUNTED = re.compile(r"(\d+) sent (\d+) heard")


def pampa_script(scene: Scene, parameters: PampaParameters, seed: int, folder: Path) -> str:
    text = PAMPA + (LINEAR if parameters.hold_mode == "linear" else DB)
    words = {
        "SIZE": PAYLOAD_BYTES,
        "COPIES": parameters.n_copies,
        "CROSSOVER": CROSSOVER_METRES,
        "POWER": POWER_WATTS,
        "WAVELENGTH": WAVELENGTH_METRES,
        "SEED": seed,
        "JITTER": parameters.jitter_seconds,
        "FACTOR": parameters.hold_factor,
        "LONGEST": parameters.hold_seconds,
        "EDGE": parameters.edge_dbm,
        "SPAN": parameters.span_db,
    }
    for word, value in words.items():
        text = re.sub(rf"\b{word}\b", str(value), text)
    lines = [_begin(scene, seed, folder / "pampa.tr", "DumbAgent"), text]
    lines += [
        f"set a({node}) [new Agent/MessagePassing/Pampa]\n"
        f"$a({node}) set me {node}\n$n({node}) attach $a({node}) $port\n"
        for node in range(len(scene.places))
    ]
    lines += [f'$ns at {time} "$a({src}) begin {number}"\n' for number, (time, src, _) in enumerate(scene.sends)]
    lines.append(
        f'$ns at {scene.end - 1} {{ set out [open "counts" w]; puts $out "$sent sent $heard heard"; close $out }}\n'
    )
    return "".join(lines) + TAIL.format(end=scene.end)


def run_pampa(scene: Scene, parameters: PampaParameters, folder: Path, seed: int = 1) -> Count:
    """``arrived`` is how many nodes heard the broadcasts, the origin left out."""
    _run(pampa_script(scene, parameters, seed, folder), folder, "pampa")
    found = COUNTED.search((folder / "counts").read_text())
    assert found is not None
    return Count("ns-2", {"pampa.pub": int(found[1])}, int(found[2]))
