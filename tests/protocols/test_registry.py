"""The registry: what is known, a protocol of a user's own in the simulator and over TCP, and what is refused."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from overlay.fleet import connected, plan_of
from overlay.helpers import QUICK, run, take, until
from recado.cli.app import main
from recado.errors import RecadoError
from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.overlay.launch import read_plan
from recado.overlay.limits import OverlayError
from recado.overlay.node import Node
from recado.protocols import registry
from recado.protocols.machine import Machine
from recado.protocols.pubsub import OverlayProtocol, ProtocolError, Request
from recado.protocols.topology import line
from recado.sim.runs.results import Journal
from recado.sim.runs.run import execute_run
from recado.sim.runs.scenario import ScenarioError, parse_scenario

SOURCE = Path(__file__).with_name("gossip.py")
SMALL = "[topology]\nnodes = 12\n[workload]\noperations = 30\nsubscriptions = 5\nwidth = 0.4\n"


@pytest.fixture
def gossip(tmp_path, monkeypatch):
    """A folder with the user's module in it, as the current folder; the module is forgotten afterwards."""
    shutil.copy(SOURCE, tmp_path / "my_gossip.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    yield tmp_path
    sys.modules.pop("my_gossip", None)


# -- what is registered


@pytest.mark.parametrize("protocol", registry.PROTOCOLS.values(), ids=lambda protocol: protocol.name)
def test_every_entry_makes_machines_by_its_defaults(protocol):
    machine: Machine = protocol.configure({}).machines(line(3))(1)
    assert isinstance(machine.inspect(), dict)
    assert set(protocol.requests) <= set(get_args(Request))
    assert set(protocol.common) <= set(protocol.settings.__struct_fields__)


def test_what_runs_live_can_be_told_by_its_messages_and_the_usual_one_does():
    assert registry.PROTOCOLS[registry.DEFAULT].live
    for protocol in registry.PROTOCOLS.values():
        if protocol.live:
            assert protocol.messages is not None
            protocol.configure({}).machines()("a")
        else:
            with pytest.raises(ProtocolError, match="runs in the simulator only"):
                protocol.configure({}).machines()


def test_overlay_simulator_and_command_line_know_no_protocol_by_name():
    """Whoever imports the package of a protocol, or speaks of its machine's class, knows it by name."""
    protocols = Path(registry.__file__).parent
    packages = {Path(sys.modules[one.make.__module__].__file__).parent for one in registry.PROTOCOLS.values()}
    names = sorted(str(path.relative_to(protocols)).replace("/", ".") for path in packages)
    assert names == ["baselines", "sensors", "supernodes", "trees"]
    known = [
        path.relative_to(protocols.parent).as_posix()
        for room in ("overlay", "radio", "sim", "cli", "net")
        for path in (protocols.parent / room).rglob("*.py")
        if re.search(rf"protocols(\.| import .*\b)({'|'.join(names)})\b", path.read_text())
    ]
    assert known == []


def test_an_unknown_name_is_told_with_the_known_ones():
    with pytest.raises(ProtocolError) as caught:
        registry.find_protocol("gossip")
    assert all(name in str(caught.value) for name in registry.PROTOCOLS)


# -- a user's own


def test_a_users_protocol_is_described_by_its_class(gossip):
    found = registry.find_protocol("my_gossip:Gossip")
    assert found.name == "my_gossip:Gossip"
    assert found.understands("publish")
    assert not found.understands("become_publisher")
    assert found.configure({"fanout": 2}).settings.fanout == 2
    with pytest.raises(ProtocolError, match="has no setting 'fan'; it has fanout"):
        found.configure({"fan": 2})
    with pytest.raises(ProtocolError, match="setting 'fanout' of protocol 'my_gossip:Gossip': Expected `int`"):
        found.configure({"fanout": "all"})


def test_a_description_may_be_named_as_well(gossip):
    with (gossip / "my_gossip.py").open("a") as file:
        file.write(
            "from recado.protocols.pubsub import OverlayProtocol\n"
            "OWN = OverlayProtocol(name='own', make=lambda s, t: lambda n: Gossip(n, s), settings=GossipSettings)\n"
        )
    found = registry.find_protocol("my_gossip:OWN")
    assert isinstance(found, OverlayProtocol)
    assert found.name == "own"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("my_gossip:Nobody", "has no machine class 'Nobody'"),
        ("my_gossip:Nameless", "with the methods handle and inspect"),
        ("my_gossip:", "has no machine class ''"),
        (":Gossip", "the module '' cannot be imported"),
        ("no_such_module:Gossip", "the module 'no_such_module' cannot be imported"),
    ],
)
def test_what_is_no_protocol_is_refused(gossip, name, message):
    with pytest.raises(ProtocolError) as caught:
        registry.find_protocol(name)
    assert message in str(caught.value)


def test_a_users_protocol_runs_in_the_simulator_by_a_scenario_file(gossip, capsys):
    (gossip / "gossip.toml").write_text(f'protocol = "my_gossip:Gossip"\n{SMALL}')
    assert main(["sim", "run", "gossip.toml", "--dry-run"]) == 0
    assert main(["sim", "run", "gossip.toml", "--workers", "1"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()][-2]["metrics"]
    assert found["deliveries.ok"] == found["deliveries.expected"] > 0
    assert [found[f"deliveries.{word}"] for word in ("lost", "duplicated", "unexpected")] == [0, 0, 0]


def test_the_oracle_sees_what_a_lossy_protocol_loses(gossip):
    text = f'{SMALL}[protocol]\nname = "my_gossip:Gossip"\noptions = {{ fanout = 1 }}\n'
    found = execute_run(parse_scenario(text).runs()[0]).metrics
    assert 0 < found["deliveries.lost"] <= found["deliveries.expected"]


def test_operations_that_a_protocol_does_not_understand_are_refused(gossip):
    text = 'protocol = "my_gossip:Gossip"\n[workload.mix]\nbecome_broker = 1\n'
    with pytest.raises(ScenarioError, match=r"has no request 'become_broker' - at `\$\.workload\.mix\.become_broker`"):
        parse_scenario(text)


def test_results_of_a_changed_protocol_are_not_mixed(gossip, tmp_path):
    runs = parse_scenario(f'protocol = "my_gossip:Gossip"\n{SMALL}').runs()
    with Journal(tmp_path / "out", runs) as journal:
        journal.add(execute_run(runs[0]))
    with Journal(tmp_path / "out", runs) as journal:
        assert journal.missing() == []
    with (gossip / "my_gossip.py").open("a") as file:
        file.write("# changed\n")
    from recado.sim.runs import results

    results.code_digest.cache_clear()
    results.about.cache_clear()
    with pytest.raises(ScenarioError, match="other code made"):
        Journal(tmp_path / "out", runs)


def test_a_users_protocol_runs_over_tcp(gossip):
    async def test():
        options = {"protocol": "my_gossip:Gossip", "limits": QUICK}
        async with (
            Node("a", **options) as a,
            Node("b", **options, peers=[str(a.address)]) as b,
            Node("c", **options, peers=[str(b.address)]) as c,
        ):
            await b.wait_for_links("a", "c")
            stream = await c.subscribe(Subscription("s", type="Tick"))
            await a.publish(Event("e", "Tick"))
            assert await take(stream, 1) == ["e"]
            assert c.show()["roles"] == ["subscribed: s"]
            assert a.show()["protocol"] == "my_gossip:Gossip"
            with pytest.raises(ProtocolError, match="has no request 'become_publisher'; it has subscribe, unsubscribe"):
                await a.become_publisher("Tick")

    run(test())


def test_nodes_of_different_protocols_do_not_link(gossip, caplog):
    async def test():
        async with (
            Node("a", protocol="my_gossip:Gossip", limits=QUICK) as a,
            Node("b", limits=QUICK, peers=[str(a.address)]) as b,
        ):
            await until(lambda: "the other side is of protocol" in caplog.text)
            assert not a.links.links
            assert not b.links.links

    run(test())


def test_a_protocol_that_cannot_run_live_is_refused_before_a_node_starts(gossip):
    for name in ("my_gossip:Silent", "flooding"):
        with pytest.raises(ProtocolError, match="runs in the simulator only"):
            Node("a", protocol=name)


def test_a_topology_file_names_the_protocol(gossip):
    path = gossip / "overlay.toml"
    path.write_text('overlay = "o"\nlinks = ["a-b"]\nprotocol = "my_gossip:Gossip"\n[settings]\nfanout = 1\n')
    assert read_plan(path).protocol == "my_gossip:Gossip"
    for text, message in [
        ('protocol = "gossip"', "there is no protocol 'gossip'; there are trees"),
        ('protocol = "simple"', "runs in the simulator only"),
        ('protocol = "my_gossip:Gossip"\n[nodes.a]\npublishes = ["Tick"]', "has no request 'become_publisher'"),
    ]:
        path.write_text(f'overlay = "o"\nlinks = ["a-b"]\n{text}\n')
        with pytest.raises(OverlayError) as caught:
            read_plan(path)
        assert str(caught.value).startswith(f"{path}: ")
        assert message in str(caught.value)
    with pytest.raises(RecadoError, match="there is no protocol 'other'"):
        read_plan(path, "other")


def test_processes_of_an_overlay_run_a_users_protocol(gossip, tmp_path):
    plan = msgspec.structs.replace(plan_of(line(3), name="gossip"), protocol="my_gossip:Gossip")
    named = msgspec.structs.replace(plan, links=("a-b", "b-c"))
    with connected(named, tmp_path) as client:
        client.ask("c", "subscribe", subscription={"id": "s", "type": "Tick"}, follow=False)
        client.ask("a", "publish", event={"id": "e", "type": "Tick"})
        client.wait_until_quiet()
        assert [one["event"] for one in client.ask("c", "deliveries")] == ["e"]


def test_the_command_line_takes_a_users_protocol_from_the_current_folder(gossip):
    command = [sys.executable, "-c", "from recado.cli.app import main; import sys; sys.exit(main(sys.argv[1:]))"]
    words = [*command, "node", "run", "--protocol", "my_gossip:Silent"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "protocol 'my_gossip:Silent' runs in the simulator only" in done.stderr
