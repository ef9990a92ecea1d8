"""Every example runs, and the sample that ships is the one that the example writes."""

import runpy
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from client.service import Background
from recado.filters.records import read_subscription

EXAMPLES = Path(__file__).parent.parent / "examples"

EXPECTED = {
    "stock_alerts.py": "t-1 -> ana, bruno\nt-2 -> carla\nt-3 -> nobody\nwithout bruno: ana\n",
    "weather_gateway.py": (
        "r-1 -> humid and mild, storm\nr-2 -> dry\nrefused: $: the JSON text ends too early\n"
        '{"id":"r-1","type":"reading","source":"/stations/porto","subject":"Porto","umidade":71,'
        '"temperatura média":18.5,"wind.gusts":[12,74,31],"$extensions":["subject"]}\n'
    ),
    "three_nodes.py": (
        "a publisher was found: True\nt-0 costs 24.9\nt-2 costs 7.5\n"
        "bruno's row: {'next': ['ana'], 'origin': ['carla']}\n"
    ),
    "ticker.py": "1000 events are in the log, in order: True\nnot answered: 0, given up: 0\n",
    "away_and_back.py": (
        "ana listens\n  PETR4 at 24.9\nana is away\nana is back\n  PETR4 at 24.0 (it waited)\n"
        "  PETR4 at 23.5 (it waited)\ndelivered: 1, pending: 1, dropped by the service: 0\n"
    ),
    "fewer_subscriptions.py": (
        "equal:    ['Price < 25', 'Price < 100 and not (Price >= 25)']\n"
        "covered:  Price < 20\n"
        'covered:  Price < 20 and Stock == "PETR4"\n'
        "covered:  Price < 100 and not Price >= 25\n"
        "merged:   Price <= 30\n"
        "forwarded: ['Price <= 30', 'Volume > 1000']\n"
    ),
}


def test_every_example_is_tested():
    elsewhere = {"make_sample.py", "make_exchange.py", "forest_fire.py"}  # the last in tests/radio
    assert {path.name for path in EXAMPLES.glob("*.py")} == {*EXPECTED, *elsewhere}


@pytest.mark.parametrize("name", EXPECTED)
def test_examples_print_what_they_should(name, capsys):
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    assert capsys.readouterr().out == EXPECTED[name]


def test_the_shipped_sample_is_what_the_example_writes(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["make_sample.py", str(tmp_path)])
    runpy.run_path(str(EXAMPLES / "make_sample.py"), run_name="__main__")
    for name in ("subscriptions.ndjson", "events.ndjson"):
        assert (tmp_path / name).read_bytes() == (files("recado") / "data" / "sample" / name).read_bytes()


def test_another_seed_gives_another_sample(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["make_sample.py", str(tmp_path), "7"])
    runpy.run_path(str(EXAMPLES / "make_sample.py"), run_name="__main__")
    shipped = files("recado") / "data" / "sample" / "events.ndjson"
    assert (tmp_path / "events.ndjson").read_bytes() != shipped.read_bytes()


def test_the_exchange_is_the_same_every_time(tmp_path, monkeypatch, capsys):
    for name in ("one", "two"):
        arguments = ["make_exchange.py", str(tmp_path / name), "--subscriptions", "300", "--events", "200"]
        monkeypatch.setattr(sys, "argv", arguments)
        runpy.run_path(str(EXAMPLES / "make_exchange.py"), run_name="__main__")
    assert "300 subscriptions and 200 events" in capsys.readouterr().out
    first, second = ((tmp_path / name / "subscriptions.ndjson").read_bytes() for name in ("one", "two"))
    assert first == second
    assert len([read_subscription(line) for line in first.splitlines()]) == 300


def test_make_sample_explains_itself(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["make_sample.py"])
    with pytest.raises(SystemExit, match="Writes the sample"):
        runpy.run_path(str(EXAMPLES / "make_sample.py"), run_name="__main__")


def test_the_example_of_going_away_runs_with_a_service_that_is_elsewhere(tmp_path, monkeypatch, capsys):
    with Background(tmp_path) as server:
        monkeypatch.setenv("RECADO_URL", server.url)
        runpy.run_path(str(EXAMPLES / "away_and_back.py"), run_name="__main__")
    assert capsys.readouterr().out == EXPECTED["away_and_back.py"]
