"""``recado node`` and ``recado overlay`` with a protocol whose nodes speak to anyone, as a person types them."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from overlay.peers import FAST
from recado.overlay.addresses import running_nodes, socket_path
from recado.overlay.client import ask

RECADO = str(Path(sys.executable).parent / "recado")

PEERS = [
    'overlay = "peers"',
    'protocol = "super-nodes"',
    'network = "star"',
    "size = 6",
    "pace = 1.5",
    'subscribes = ["v < 1", "v < 2"]',
    "[settings]",
    *(f"{name} = {json.dumps(value)}" for name, value in FAST.items()),
]


@pytest.fixture(autouse=True)
def own_runtime(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("RECADO_RUNTIME", str(tmp_path_factory.mktemp("r")))


def eventually(condition, seconds=90):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture
def peers(recado, write):
    path = write("peers.toml", *PEERS)
    try:
        up = recado("overlay", "up", path, "--nodes-per-process", "3")
        assert up.code == 0, up.err
        yield path, up
    finally:
        recado("overlay", "down", "peers")


def roles(recado):
    return {node["node"]: node["machine"]["role"] for node in recado("overlay", "show").records}


def settled(nodes):
    """Does every member of the layer know all others?"""
    known = [node["machine"]["layer"]["members"] for node in nodes if "layer" in node["machine"]]
    return all(count == len(known) for count in known)


def lines(run):
    """What was written, without the spaces that fill up columns."""
    return "\n".join(line.rstrip() for line in run.out.splitlines())


def test_an_overlay_of_peers_from_up_to_down(peers, recado, write):
    path, up = peers
    assert up.err == "overlay peers: started 6 nodes, all have joined\n"
    assert len({node["process"] for node in up.records}) == 2
    assert roles(recado) == {"n0": "super", "n1": "super", "n2": "sub", "n3": "sub", "n4": "sub", "n5": "sub"}
    table = recado("overlay", "show", terminal=True).out.splitlines()
    assert table[0].split() == ["node", "address", "role", "subscribed", "links", "sent", "delivered"]
    assert table[4].split()[2:4] == ["sub", "n3-1"]

    assert recado("node", "publish", '{"id": "e-1", "v": 1}', "--node", "n4").out == "e-1\n"
    followed = recado("node", "follow", "n3-1", "--node", "n3", "--count", "1").records
    assert followed[-1]["event"] == {"id": "e-1", "v": 1}
    steps = [{"node": "n2", "do": "publish", "event": {"id": f"e-{v + 2}", "v": v}} for v in (0, 3)]
    first, second = recado("overlay", "run", write("s.ndjson", *map(json.dumps, steps)), "--pause", "1").records
    assert [d["node"] for d in first["deliveries"]] == ["n0", "n1", "n2", "n3", "n4", "n5"]
    assert second["deliveries"] == []
    assert "asked to Publish" in recado("overlay", "story", "e-1", terminal=True).out

    out = lines(recado("node", "show", "--node", "n1", terminal=True))
    assert re.search(r"^super node of v < 2, 2 children$", out, re.MULTILINE)
    assert re.search(r"^family\nchildren  127\.0\.0\.1:\d+ 127\.0\.0\.1:\d+$", out, re.MULTILINE)
    assert re.search(r"^layer\nmembers\s+2$", out, re.MULTILINE)
    assert re.search(r"^K nodes\s+none\nview\s+[0-9a-f]+:\d", out, re.MULTILINE)
    out = lines(recado("node", "show", "--node", "n5", terminal=True))
    father, brother = (ask(socket_path("peers", name), "show")["address"] for name in ("n1", "n3"))
    assert re.search(rf"^family\nfather    {father}\nbrothers  {brother}$", out, re.MULTILINE)

    os.kill(up.records[1]["process"], signal.SIGKILL)  # n1, n3 and n5: nobody wants v < 2 any more
    os.waitpid(up.records[1]["process"], 0)
    eventually(lambda: ask(socket_path("peers", "n0"), "show")["machine"]["layer"]["members"] == 1)
    assert list(roles(recado)) == ["n0", "n2", "n4"]
    assert recado("overlay", "up", path, "--nodes-per-process", "3").err == (
        "overlay peers: started 3 nodes, all have joined\n"
    )
    assert len(roles(recado)) == 6
    eventually(lambda: settled(recado("overlay", "show").records))
    recado("node", "publish", '{"id": "e-9", "v": 1}', "--node", "n0")
    assert recado("node", "follow", "n5-1", "--node", "n5", "--count", "1").records[-1]["event"]["id"] == "e-9"
    down = recado("overlay", "down")
    assert (down.code, down.err) == (0, "overlay peers: stopped 6 nodes\n")
    assert running_nodes() == []


def test_the_first_node_that_was_killed_joins_the_others(peers, recado):
    """When it is started again it must not begin an overlay of its own."""
    path, up = peers
    os.kill(up.records[0]["process"], signal.SIGKILL)
    os.waitpid(up.records[0]["process"], 0)
    assert recado("overlay", "up", path).code == 0
    assert len(roles(recado)) == 6
    recado("node", "publish", '{"id": "e", "v": 0}', "--node", "n1")
    for name in ("n0", "n3"):
        assert recado("node", "follow", f"{name}-1", "--node", name, "--count", "1").records[-1]["event"]["id"] == "e"


def test_peers_one_by_one(recado):
    settings = [word for name, value in FAST.items() for word in ("--setting", f"{name}={value}")]

    def start_node(name, *arguments):
        words = [RECADO, "node", "--protocol", "super-nodes", "--name", name, *settings, *arguments]
        processes.append(subprocess.Popen(words, stderr=subprocess.DEVNULL))
        eventually(lambda: socket_path("recado", name) in running_nodes())
        return ask(socket_path("recado", name), "show")["address"]

    processes = []
    try:
        ana = start_node("ana")
        bruno = start_node("bruno", "--peer", ana)
        recado("node", "subscribe", "v < 5", "--id", "low", "--detach", "--node", "ana")
        eventually(lambda: ask(socket_path("recado", "bruno"), "count")["joined"])
        start_node("carla", "--peer", bruno)
        recado("node", "subscribe", "v < 5", "--id", "too", "--detach", "--node", "carla")
        carla = socket_path("recado", "carla")
        eventually(lambda: ask(carla, "show")["roles"] == [f"child of {ana}, 0 brothers, for v < 5"])
        assert recado("node", "publish", '{"id": "e", "v": 3}', "--node", "bruno").code == 0
        for name, id in (("ana", "low"), ("carla", "too")):
            items = recado("node", "follow", id, "--node", name, "--count", "1").records
            assert items[-1] == {"event": {"id": "e", "v": 3}, "subscriptions": [id]}
        run = recado("node", "become-publisher", "Tick", "--node", "ana")
        assert run.code == 2
        assert "protocol 'super-nodes' has no request 'become_publisher'" in run.err
        for name in ("ana", "bruno", "carla"):
            assert recado("node", "stop", "--node", name).code == 0
        assert [process.wait(20) for process in processes] == [0, 0, 0]
    finally:
        for process in processes:
            process.kill()
            process.wait()
