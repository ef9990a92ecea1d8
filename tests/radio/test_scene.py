"""Scene files, and what is said about wrong ones."""

import pytest

from recado.radio.scene import SceneError, read_scene

GOOD = """
scene = "forest"
factor = 5.0
[placement]
kind = "connected"
nodes = 12
side = 600.0
[settings]
pampa = "sparse"
[nodes.n0]
subscribes = ["temperature > 60"]
settings = { capacity = 4 }
[nodes.tower]
place = [300.0, 300.0]
"""


def write(tmp_path, text):
    path = tmp_path / "scene.toml"
    path.write_text(text)
    return path


def test_a_scene_is_the_same_every_time(tmp_path):
    scene = read_scene(write(tmp_path, GOOD))
    assert scene.places() == read_scene(write(tmp_path, GOOD)).places()
    assert list(scene.places()) == [*(f"n{number}" for number in range(12)), "tower"]
    assert scene.places()["tower"] == (300.0, 300.0)
    assert scene.subscribes("n0") == ("temperature > 60",)
    assert scene.configured("n0").settings.capacity == 4
    assert scene.configured("n1").settings.capacity == 0
    assert scene.configured("n1").settings.pampa == "sparse"
    assert len(scene.pieces()) == 1


def test_pieces_are_told(tmp_path):
    text = 'scene = "s"\nnodes = { a = { place = [0, 0] }, b = { place = [100, 0] }, c = { place = [900, 0] } }\n'
    assert read_scene(write(tmp_path, text)).pieces() == [["a", "b"], ["c"]]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("factor = 5.0", "factor = 0.5"), "factor: time is 1 to 100 times slower, not 0.5"),
        (('kind = "connected"', 'kind = "heap"'), "Invalid enum value 'heap'"),
        (("nodes = 12", "nodes = 0"), "placement.nodes: a scene has 1 to 1,000 nodes, not 0"),
        (("side = 600.0", ""), "placement.side: connected needs the side of a square in metres"),
        (('pampa = "sparse"', 'pampas = "sparse"'), "has no setting 'pampas'"),
        (('pampa = "sparse"', 'pampa = "thick"'), "Invalid enum value 'thick'"),
        (("temperature > 60", "temperature >"), "nodes.n0: "),
        (("capacity = 4", "capacity = -4"), "nodes.n0: the settings of protocol 'sensor-network': capacity is -4"),
        (("[nodes.tower]", "[nodes.medium]"), "nodes.medium: the air itself is called so"),
        (("place = [300.0, 300.0]", ""), "nodes.tower: it stands nowhere; give it a place"),
        (("place = [300.0, 300.0]", "place = [nan, 1.0]"), "nodes.tower.place: two numbers, in metres"),
        (('scene = "forest"', 'scene = "a/b"'), "'a/b' is no name"),
        (
            ('scene = "forest"', 'scene = "forest"\nprotocol = "trees"'),
            "protocol: 'trees' is not for radio; sensor-network is",
        ),
        (('scene = "forest"', 'scene = "forest"\nprotocol = "super-nodes"'), "'super-nodes' is not for radio"),
        (('scene = "forest"', 'scene = "forest"\nloss = 1.5'), "loss: a probability below 1, not 1.5"),
        (('scene = "forest"', 'scene = "forest"\nsky = 1'), "unknown field `sky`"),
        (('scene = "forest"', "scene = "), "not TOML"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, change, said):
    path = write(tmp_path, GOOD.replace(*change))
    with pytest.raises(SceneError) as error:
        read_scene(path)
    assert said in str(error.value)
    assert str(path) in str(error.value)


def test_a_scene_without_nodes(tmp_path):
    with pytest.raises(SceneError, match="there are no nodes"):
        read_scene(write(tmp_path, 'scene = "empty"\n'))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(SceneError, match="cannot be read"):
        read_scene(tmp_path / "none.toml")
