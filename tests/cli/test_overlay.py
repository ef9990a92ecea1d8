"""``recado node`` and ``recado overlay``, as a person types them."""

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from overlay.background import background
from recado.overlay.addresses import running_nodes, socket_path
from recado.overlay.client import ask
from recado.overlay.node import Node

RECADO = str(Path(sys.executable).parent / "recado")

TOPOLOGY = """\
overlay = "laptop"
links = ["ana-bruno", "bruno-carla"]
[nodes.carla]
publishes = ["Tick"]
"""

SCRIPT = [
    {"node": "ana", "do": "subscribe", "subscription": {"id": "cheap", "type": "Tick", "filter": "Price < 25"}},
    {"node": "carla", "do": "publish", "event": {"id": "t-1", "type": "Tick", "Price": 24}},
    {"node": "carla", "do": "publish", "event": {"id": "t-2", "type": "Tick", "Price": 26}},
]


@pytest.fixture(autouse=True)
def own_runtime(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("RECADO_RUNTIME", str(tmp_path_factory.mktemp("r")))


def eventually(condition):
    end = time.monotonic() + 90
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def pair():
    """Two nodes with a link; ``bruno`` publishes Tick."""
    ana, bruno = Node("ana"), Node("bruno")
    with background(ana, bruno) as call:
        ask(socket_path("recado", "ana"), "connect", address=str(bruno.address))
        call(bruno.wait_for_links("ana"))
        call(ana.wait_for_links("bruno"))
        call(bruno.become_publisher("Tick"))
        yield


# -- recado node


def test_publish_and_follow(pair, recado):
    run = recado("node", "subscribe", "Price < 25", "--type", "Tick", "--id", "cheap", "--detach", "--node", "ana")
    assert (run.code, run.err) == (0, "subscribed as cheap\n")
    eventually(lambda: '"Tick"' in recado("node", "show", "--node", "bruno", "--json").out)
    eventually(lambda: recado("node", "show", "--node", "bruno").records[0]["machine"]["tables"])
    assert recado("node", "publish", '{"id": "t-1", "type": "Tick", "Price": 24}', "-n", "bruno").out == "t-1\n"
    lines = '{"id": "t-2", "type": "Tick", "Price": 30}\n\n{"type": "Tick", "Price": 1}\n'
    assert recado("node", "publish", "-", "--node", "bruno", stdin=lines).err == "published 2 events\n"
    run = recado("node", "publish", "-", "--node", "bruno", stdin='{"type": "Tick", "Price": 90}\n\n{"type"\n')
    assert run.code == 2
    assert "line 3: $: the JSON text ends too early; 1 event before it published" in run.err
    first, second = recado("node", "follow", "cheap", "--node", "ana", "--count", "2").records[-2:]
    assert first == {"event": {"id": "t-1", "type": "Tick", "Price": 24}, "subscriptions": ["cheap"]}
    assert second["event"]["Price"] == 1
    assert second["event"]["id"].startswith("e-")
    assert recado("node", "unsubscribe", "cheap", "--node", "ana").code == 0
    eventually(lambda: not recado("node", "show", "--node", "bruno").records[0]["machine"]["tables"])


def test_subscribe_shows_what_comes(pair, recado):
    def publish():
        eventually(lambda: ask(socket_path("recado", "bruno"), "show")["machine"]["tables"])
        ask(socket_path("recado", "bruno"), "publish", event={"id": "t-1", "type": "Tick", "Price": 24.5})

    thread = threading.Thread(target=publish)
    thread.start()
    run = recado("node", "subscribe", "--type", "Tick", "--node", "ana", "--count", "1", terminal=True)
    thread.join()
    assert "Settled" in run.out
    assert "t-1  Tick  Price=24.5" in run.out
    assert run.err.startswith("subscribed as s-")
    eventually(lambda: not ask(socket_path("recado", "ana"), "show")["machine"]["subscriptions"])


def test_what_a_node_does_not_publish(pair, recado):
    run = recado("node", "publish", '{"type": "Tick"}', "--node", "ana")
    assert run.code == 2
    assert "node 'ana' does not publish 'Tick'" in run.err
    assert recado("node", "become-publisher", "Tick", "--node", "ana").code == 0
    assert recado("node", "publish", '{"type": "Tick"}', "--node", "ana").code == 0
    assert recado("node", "become-broker", "Tick", "--node", "ana").code == 0
    assert recado("node", "publish", '{"type": "Tick"}', "--node", "ana").code == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show"], "several nodes run here; name one with --node: recado/ana, recado/bruno"),
        (["show", "--node", "/recado/ana"], "'/recado' is no name of a node or overlay"),
        (["follow", "s", "--count", "-1", "--node", "ana"], "Must be >= 0"),
        (["show", "--node", "davi"], "no node 'davi' runs here; running: recado/ana, recado/bruno"),
        (["subscribe", "Price <", "--node", "ana"], "expected a value but found the end of the filter"),
        (["publish", "nonsense", "--node", "ana"], "$: "),
        (["follow", "none", "--node", "ana"], "this node has no subscription 'none'; it has none"),
        (["connect", "nowhere", "--node", "ana"], "'nowhere' is no address; write HOST:PORT"),
    ],
)
def test_errors_say_what_would_be_right(pair, recado, arguments, message):
    run = recado("node", *arguments)
    assert run.code == 2
    assert message in run.err


def test_a_node_for_people(pair, recado):
    recado("node", "subscribe", "--type", "Tick", "--id", "s", "--detach", "--node", "ana")
    eventually(lambda: ask(socket_path("recado", "bruno"), "show")["machine"]["tables"])
    out = recado("node", "show", "--node", "bruno", terminal=True).out
    assert out.startswith("bruno of overlay recado, trees, listens on 127.0.0.1:")
    assert "publishes Tick" in out
    assert "tree of s\n└── ana  subscriber\n    └── bruno  publisher\n" in out
    out = recado("node", "show", "s", "--node", "bruno", terminal=True).out
    assert out == "tree of s\n└── ana  subscriber\n    └── bruno  publisher\n"
    assert recado("node", "show", "s", "--node", "bruno").records[0]["rows"]["ana"] == {
        "next": ["ana"],
        "origin": ["bruno"],
    }
    assert "no node here has a row of it" in recado("node", "show", "none", "-n", "ana", terminal=True).out
    assert "a broker" not in out
    assert "peer" in recado("node", "peers", "--node", "ana", terminal=True).out
    assert recado("node", "peers", "--node", "ana").records[0]["peer"] == "bruno"


def test_the_story_of_an_event(pair, recado):
    recado("node", "subscribe", "--type", "Tick", "--id", "s", "--detach", "--node", "ana")
    eventually(lambda: ask(socket_path("recado", "bruno"), "show")["machine"]["tables"])
    recado("node", "publish", '{"id": "t-1", "type": "Tick"}', "--node", "bruno")
    eventually(lambda: len(recado("overlay", "story", "t-1").records) == 2)
    asked, received = recado("overlay", "story", "t-1").records
    assert (asked["node"], asked["kind"]) == ("bruno", "Publish")
    assert (received["node"], received["from"], received["kind"]) == ("ana", "bruno", "N")
    out = recado("overlay", "story", "t-1", terminal=True).out
    assert 'bruno  asked to Publish  {"event":{"id":"t-1","type":"Tick"}}' in out
    assert "    -> ana  N  (" in out
    assert "    delivers Notified" in out
    assert "received N from bruno" in recado("node", "story", "t-1", "--node", "ana", terminal=True).out
    assert len(recado("node", "story", "--last", "1", "--node", "ana").records) == 1
    assert recado("overlay", "story", "nothing").code == 1
    assert recado("node", "story", "nothing", "--node", "ana").code == 1
    assert recado("node", "show", "nothing", "--node", "ana").code == 1


# -- recado node run, in a process of its own


def start_node(*arguments, form=("run",)):
    return subprocess.Popen([RECADO, "node", *form, *arguments], stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("form", [("run",), ()])
def test_a_node_runs_until_it_is_told_to_stop(form, tmp_path):
    with start_node("--name", "ana", "--state", str(tmp_path / "s"), "--setting", "buffer=5", form=form) as process:
        try:
            eventually(lambda: [path.stem for path in running_nodes()] == ["ana"])
            ask(socket_path("recado", "ana"), "become-publisher", type="Tick")
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
        finally:
            process.kill()
        log = process.stderr.read()
    assert "ana: listens on 127.0.0.1:" in log
    assert log.rstrip().endswith("ana: stopped")
    assert running_nodes() == []


def test_a_node_ends_by_its_control_socket(recado):
    with start_node("--overlay", "o") as process:
        try:
            eventually(running_nodes)
            assert recado("node", "stop").code == 0
            assert process.wait(20) == 0
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--listen", "0.0.0.0:0"], "a shared key is needed (--key-file)"),
        (["--listen", "here"], "'here' is no address"),
        (["--name", "a/b"], "'a/b' is no name"),
        (["--key-file", "none"], "the key file none cannot be read"),
        (["--tls-cert", "c.pem"], "TLS needs --tls-cert and --tls-key together"),
        (["--tls-cert", "c.pem", "--tls-key", "k.pem"], "TLS cannot use c.pem"),
        (["--setting", "causal"], "--setting causal: write NAME=VALUE"),
        (["--setting", "bufer=1"], "has no setting 'bufer'"),
    ],
)
def test_a_node_that_cannot_run_says_why(arguments, message, recado):
    handlers = logging.getLogger("recado.overlay").handlers[:]
    run = recado("node", "run", *arguments)
    logging.getLogger("recado.overlay").handlers[:] = handlers
    assert run.code == 2
    assert message in run.err


# -- recado overlay


@pytest.fixture
def laptop(recado, write, tmp_path):
    path = write("laptop.toml", *TOPOLOGY.splitlines())
    try:
        up = recado("overlay", "up", path)
        assert up.code == 0, up.err
        yield path, up
    finally:
        recado("overlay", "down", "laptop")


def test_an_overlay_from_up_to_down(laptop, recado, write):
    path, up = laptop
    assert up.err == "overlay laptop: started 3 nodes, all links are up\n"
    assert {node["node"]: list(node["links"]) for node in up.records} == {
        "ana": ["bruno"],
        "bruno": ["ana", "carla"],
        "carla": ["bruno"],
    }
    script = write("script.ndjson", *map(json.dumps, SCRIPT))
    subscribed, first, second = recado("overlay", "run", script).records
    assert subscribed["messages"] == {"Q": 2, "QYes": 2}
    assert [d["node"] for d in first["deliveries"]] == ["ana"]
    assert (second["messages"], second["deliveries"]) == ({}, [])
    shown = recado("overlay", "show", "--subscription", "cheap", terminal=True)
    assert shown.out == "tree of cheap\n└── ana  subscriber\n    └── bruno\n        └── carla  publisher\n"
    assert recado("overlay", "show", "laptop", "--subscription", "none").code == 1
    table = recado("overlay", "show", terminal=True).out.splitlines()
    assert table[0].split() == ["node", "address", "links", "publishes", "subscribed", "rows", "sent", "delivered"]
    assert table[1].startswith("ana  ")
    os.kill(up.records[1]["process"], signal.SIGKILL)
    os.waitpid(up.records[1]["process"], 0)
    assert [node["node"] for node in recado("overlay", "show").records] == ["ana", "carla"]
    again = recado("overlay", "up", path)
    assert again.err == "overlay laptop: started 1 node, all links are up\n"
    down = recado("overlay", "down")
    assert (down.code, down.err) == (0, "overlay laptop: stopped 3 nodes\n")
    assert running_nodes() == []


def test_a_script_for_people(laptop, recado, write):
    out = recado("overlay", "run", write("s.ndjson", *map(json.dumps, SCRIPT)), terminal=True).out
    assert out.splitlines()[1].split() == ["ana", "subscribe", "cheap", "4", "Q", "2", "QYes", "2"]
    assert out.splitlines()[2].split() == ["carla", "publish", "t-1", "2", "N", "2", "ana"]


def test_another_topology_under_the_same_name_is_refused(laptop, recado, write):
    run = recado("overlay", "up", write("other.toml", 'overlay = "laptop"', 'links = ["ana-bruno"]'))
    assert run.code == 2
    assert "runs with other nodes or links" in run.err


def test_a_node_that_ends_at_once_is_told_with_its_last_words(recado, write):
    path = write("o.toml", 'overlay = "o"', 'links = ["a-b"]', "[nodes.a]", 'listen = "192.0.2.1:1"')
    run = recado("overlay", "up", path)
    assert run.code == 2
    assert "a: ended at once; the logs are in" in run.err
    assert "a shared key is needed" in run.err
    assert running_nodes() == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show"], "no overlay runs here; see: recado overlay up"),
        (["show", "none"], "no node of overlay 'none' runs here"),
        (["down", "none"], "no overlay 'none' was started here"),
        (["run", "none.ndjson"], "none.ndjson: cannot be read"),
        (["up", "none.toml"], "none.toml: cannot be read"),
    ],
)
def test_what_is_not_there(recado, arguments, message):
    run = recado("overlay", *arguments)
    assert run.code == 2
    assert message in run.err


def test_a_bad_line_of_a_script_is_named(recado, write):
    path = write("s.ndjson", json.dumps(SCRIPT[0]), "", '{"node": "ana", "do": "dance"}')
    run = recado("overlay", "run", path)
    assert run.code == 2
    assert f"{path}, line 3: Invalid enum value 'dance'" in run.err
