"""The example with the fire, in small and without Spark; the long test has all of it."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SCENE = """
scene = "grove"
types = ["Sample"]
settings = { pampa = "sparse", pace_mode = "adaptive" }

[placement]
kind = "grid"
nodes = 9
side = 360.0

[nodes.tower]
place = [180.0, 190.0]
"""


def play(tmp_path, capsys, *more):
    scene = tmp_path / "grove.toml"
    scene.write_text(SCENE)
    example = runpy.run_path(str(EXAMPLES / "forest_fire.py"))
    example["main"]([str(tmp_path / "out"), "--scene", str(scene), "--factor", "5", "--steps", "2", *more])
    return capsys.readouterr().out


def test_ana_gets_what_is_hot_and_dry(tmp_path, capsys):
    said = play(tmp_path, capsys, "--no-spark")
    assert "10 nodes run" in said
    assert 'the network is asked for: type == "Sample" and (temperature > 60 and humidity < 30)' in said
    assert "18 samples, 4 of them hot and dry\nAna got 4, over 1 to" in said
    assert "the log has 4, each once: True" in said


@pytest.mark.long
def test_with_the_report_of_spark(tmp_path, capsys):
    said = play(tmp_path, capsys)
    assert "on Spark, fire: 4" in said
    page = tmp_path / "out" / "report" / "index.html"
    assert "A fire in the forest" in page.read_text()
