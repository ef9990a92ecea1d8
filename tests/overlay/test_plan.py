"""Topology files: what they describe, and errors that name file and place."""

import pytest

from overlay.fleet import plan_of
from recado.overlay.launch import new_launch, read_launch, read_plan, relaunch, share_limits, stop
from recado.overlay.limits import OVERLAY_LIMITS, OverlayError
from recado.protocols.registry import find_protocol
from recado.protocols.topology import NET_16, parse_edges


@pytest.fixture
def write(tmp_path):
    def write_file(text):
        path = tmp_path / "overlay.toml"
        path.write_text(text)
        return path

    return write_file


def test_links_and_nodes(write):
    plan = read_plan(
        write(
            'overlay = "o"\nlinks = ["ana-bruno", "bruno-carla"]\n[nodes.bruno]\npublishes = ["Tick"]\n[nodes.solo]\n'
            "[settings]\ncausal = true\n"
        )
    )
    topology = plan.topology()
    assert set(topology.nodes) == {"ana", "bruno", "carla", "solo"}
    assert topology.neighbours("bruno") == ("ana", "carla")
    assert plan.nodes["bruno"].publishes == ("Tick",)
    assert plan.settings == {"causal": True}


def test_networks(write):
    assert read_plan(write('overlay = "o"\nnetwork = "NET-16"\n')).topology().edges == NET_16.edges
    generated = read_plan(write('overlay = "o"\nnetwork = "random-graph"\nsize = 12\nseed = 7\n')).topology()
    assert generated.nodes == tuple(f"n{i}" for i in range(12))
    assert generated.connected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("overlay = \n", "not TOML: Invalid value (at line 1, column 11)"),
        ("", "Object missing required field `overlay`"),
        ('overlay = "o"\n', "there are no nodes"),
        ('overlay = "a b"\nlinks = ["a-b"]', "'a b' is no name of a node or overlay"),
        ('overlay = "o"\nlinks = ["a-b", "c"]', "links[1]: 'c' is no link"),
        ('overlay = "o"\nlinks = ["a-a"]', "links[0]: 'a-a' is no link"),
        ('overlay = "o"\nlinks = ["a-b!"]', "'b!' is no name"),
        ('overlay = "o"\nlinks = [1]', "at `$.links[0]`"),
        ('overlay = "o"\nlinks = ["a-b"]\nnetwork = "NET-13"', "exclude each other"),
        ('overlay = "o"\nnetwork = "mesh"', "there is no network 'mesh'; there are NET-13,"),
        ('overlay = "o"\nnetwork = "ring"', "size: a ring here has 1 to 1,000 nodes, not 0"),
        ('overlay = "o"\nnetwork = "ring"\nsize = 2', "at least 3"),
        ('overlay = "o"\nlinks = ["a-b"]\n[nodes.c]\nlisten = 3', "at `$.nodes[...].listen`"),
        ('overlay = "o"\nnetwork = "NET-13"\n[nodes.Z]', "nodes.Z: the network has no such node"),
        ('overlay = "o"\nlinks = ["a-b"]\nlnks = 1', "unknown field `lnks`"),
        ('overlay = "o"\nlinks = ["a-b"]\n[settings]\nbufer = 1', "has no setting 'bufer'; it has filtering"),
        (
            'overlay = "o"\nlinks = ["a-b"]\n[settings]\nbuffer = "x"',
            "setting 'buffer' of protocol 'trees': Expected `int`",
        ),
        ('overlay = "o"\nlinks = ["a-b"]\n[settings]\nmpp = "x"', "mpp"),
    ],
)
def test_errors_name_the_file_and_the_place(write, text, message):
    path = write(text)
    with pytest.raises(OverlayError) as caught:
        read_plan(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(OverlayError, match=r"none\.toml: cannot be read: No such file"):
        read_plan(tmp_path / "none.toml")


def test_ports_are_chosen_and_each_link_is_dialled_once(tmp_path):
    launch = new_launch(plan_of(NET_16), tmp_path)
    addresses = {node.listen for node in launch.nodes.values()}
    assert len(addresses) == 16
    assert sum(len(node.dials) for node in launch.nodes.values()) == 17
    assert all(address in addresses for node in launch.nodes.values() for address in node.dials)


def test_an_overlay_that_was_never_started(tmp_path):
    with pytest.raises(OverlayError, match="no overlay 'none' was started here"):
        read_launch("none")
    plan = plan_of(parse_edges("a-b"))
    assert relaunch(plan) is None
    new_launch(plan, tmp_path).save()
    assert relaunch(plan) is None
    assert stop(read_launch("test")) == 0


def test_what_must_be_common_is_part_of_the_protocols_name():
    trees = find_protocol("trees")
    assert trees.configure({"buffer": 5}).name == "trees"
    options = {"mpp": "stream", "forwarding": "subscriptions"}
    assert trees.configure(options).name == "trees mpp=stream forwarding=subscriptions"


# -- protocols whose nodes speak to anyone


def test_nodes_that_join_know_their_neighbours_or_the_first_node(write):
    plan = read_plan(
        write(
            'overlay = "o"\nprotocol = "super-nodes"\nlinks = ["ana-bruno", "carla-bruno"]\npace = 2.5\n'
            'subscribes = ["v < 1", "v < 2"]\n[nodes.bruno]\nsubscribes = ["w == 1", "w == 2"]\n[nodes.solo]\n'
        )
    )
    launch = new_launch(plan, write("").parent)
    nodes, at = launch.nodes, {name: node.listen for name, node in launch.nodes.items()}
    assert launch.joins
    assert launch.pace == 2.5
    assert list(nodes) == ["bruno", "solo", "ana", "carla"]
    assert {name: node.dials for name, node in nodes.items()} == {
        "bruno": [at["ana"], at["carla"]],
        "solo": [at["bruno"]],
        "ana": [at["bruno"]],
        "carla": [at["bruno"]],
    }
    assert {name: node.subscribes for name, node in nodes.items()} == {
        "bruno": ("w == 1", "w == 2"),
        "solo": ("v < 2",),
        "ana": ("v < 1",),
        "carla": ("v < 2",),
    }


def test_a_filter_that_cannot_be_read_is_told(write):
    with pytest.raises(OverlayError, match=r"overlay\.toml: .*expected a value"):
        read_plan(write('overlay = "o"\nlinks = ["a-b"]\nsubscribes = ["v <"]\n'))


def test_nodes_of_one_process_share_what_is_remembered():
    limits = share_limits(OVERLAY_LIMITS, 16)
    assert (limits.story_steps, limits.story_bytes) == (256, 524_288)
    assert share_limits(OVERLAY_LIMITS, 1) == OVERLAY_LIMITS
    assert share_limits(OVERLAY_LIMITS, 1_000).story_steps == 64
