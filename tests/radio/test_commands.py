"""``recado radio`` from a command line."""

import json
import socket
import subprocess
import sys
import time

import pytest

from radio.live import kill
from recado.cli.app import main
from recado.radio.launch import open_scene

SCENE = """
scene = "row"
factor = 5.0
settings = { pace_mode = "adaptive" }
placement = { kind = "line", nodes = 3 }
nodes.n0.subscribes = ["heat > 60"]
"""
PROGRAM = "import sys; from recado.cli.app import main; sys.exit(main())"


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    path = tmp_path_factory.mktemp("scene") / "row.toml"
    path.write_text(SCENE)
    assert main(["radio", "up", str(path)]) == 0
    yield path
    assert main(["radio", "down"]) == 0


def told(capsys, *arguments):
    assert main(["radio", *arguments]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_what_is_subscribed_comes(scene, capsys):
    listening = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "radio", "subscribe", "n2", "heat > 70", "--id", "hot", "--count", "1"],
        stdout=subprocess.PIPE,
    )
    with open_scene() as client:
        end = time.monotonic() + 90
        while "hot" not in client.ask("n2", "show")["machine"]["subscriptions"] and time.monotonic() < end:
            time.sleep(0.05)
        client.wait_until_quiet()
        assert main(["radio", "publish", "n0", '{"id": "e-1", "heat": 71}']) == 0
        out, _ = listening.communicate(timeout=60)
        item = json.loads(out)
        assert (item["event"], item["node"], item["hops"]) == ({"id": "e-1", "heat": 71}, "n0", 2)
        client.wait_until_quiet()
        assert client.deliveries() == {("e-1", "n0"), ("e-1", "n2")}
        assert client.ask("n2", "show")["machine"]["subscriptions"] == {}  # it went with the program


def test_nodes_and_medium_are_shown(scene, capsys):
    shown = told(capsys, "show")
    assert [one["node"] for one in shown] == ["n0", "n1", "n2"]
    (node,) = told(capsys, "show", "n0")
    assert list(node["machine"]["subscriptions"]) == ["n0-1"]
    (medium,) = told(capsys, "show", "medium")
    assert medium["places"]["n2"] == [400.0, 0.0]
    assert told(capsys, "story", "n0")


def test_faults(scene, capsys):
    assert told(capsys, "fault") == [{"loss": 0.0, "collisions": False, "cut": [], "mute": []}]
    set_ = told(capsys, "fault", "--loss", "0.2", "--cut", "n1,n2", "--mute", "n0", "--move", "n2=390,5")
    assert set_ == [{"loss": 0.2, "collisions": False, "cut": ["n1", "n2"], "mute": ["n0"]}]
    assert told(capsys, "show", "medium")[0]["places"]["n2"] == [390.0, 5.0]
    told(capsys, "fault", "--heal", "--move", "n2=400,0")
    assert told(capsys, "fault")[0]["loss"] == 0.0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["show", "n9"], "there is no node 'n9' in this scene; there are n0, n1, n2"),
        (["subscribe", "n9"], "there is no node 'n9'"),
        (["fault", "--loss", "3"], "from 0 to 1, not 3"),
        (["fault", "--move", "n2=here"], "--move n2=here: write NODE=X,Y in metres"),
        (["unsubscribe", "n1", "none"], "has no subscription 'none'"),
        (["gateway", "--node", "n0", "--service", "recado://localhost:1"], "Name them with --type"),
        (["gateway", "--node", "n9"], "there is no node 'n9'"),
        (["down", "other"], "no scene 'other' was started here"),
    ],
)
def test_what_is_wrong_is_said(scene, capsys, arguments, said):
    assert main(["radio", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_up_starts_again_what_was_killed(scene, capsys):
    with open_scene() as client:
        kill(client, "n1")
    assert [(one["node"], bool(one["process"])) for one in told(capsys, "show")] == [
        ("n0", True), ("n1", False), ("n2", True),
    ]  # fmt: skip
    assert main(["radio", "up", str(scene)]) == 0
    assert "started 1 node" in capsys.readouterr().err
    assert main(["radio", "up", str(scene), "--factor", "7"]) == 2
    assert "was another one when it was started" in capsys.readouterr().err


def test_what_did_not_come_over_the_air_is_refused(scene, own_runtime):
    with open_scene() as client, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stranger:
        before = client.ask("n0", "count")["refused"]
        stranger.bind(str(own_runtime / "row" / "eve.air"))
        stranger.sendto(b"\xc1", str(own_runtime / "row" / "n0.air"))
        stranger.sendto(b"\xc1", str(own_runtime / "row" / "medium.air"))
        time.sleep(0.3)
        assert client.ask("n0", "count")["refused"] == before + 1
        assert client.ask("medium", "count")["counts"]["garbage"] == 1
