"""docs/running.md has every metric and every kind of trouble of a service, and no other."""

import re
from pathlib import Path
from typing import get_args

import pytest
import yaml

from recado.broker.state import DropReason
from recado.server.engine import STORING
from server.running import http, run, serving

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "running.md").read_text()


def part(title):
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def rows(title):
    """The cells of a part's table, by the name in the first one."""
    found = re.findall(r"^\| `(\w+)`( \*)? \| (.+) \| (.+) \|$", part(title), re.MULTILINE)
    assert len({name for name, *_ in found}) == len(found), "each once"
    return {name: (bool(mark), *cells) for name, mark, *cells in found}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """The names of the metrics that a service shows, and its kinds of trouble."""

    async def fetch():
        async with serving(tmp_path_factory.mktemp("service")) as server, http(server) as client:
            return (await client.get("/metrics")).text, list(server.engine.troubles())

    text, kinds = run(fetch())
    return set(re.findall(r"^# TYPE (\S+) ", text, re.MULTILINE)), kinds


def test_every_metric_is_described(service):
    assert set(rows("Metrics")) == service[0]


def test_every_trouble_has_its_cure(service):
    assert list(rows("Trouble")) == service[1]
    assert tuple(service[1][:4]) == STORING, "the page says: with the first four the service is not ready"
    assert "With the first four" in part("Trouble")


def test_the_marked_metrics_are_those_of_the_alerts(service):
    rules = yaml.safe_load((ROOT / "deploy" / "prometheus" / "rules.yml").read_text())["groups"][0]["rules"]
    used = {name for rule in rules for name in re.findall(r"\b(?:recado|process)_\w+", rule["expr"])}
    used = {name.removesuffix("_bucket") for name in used}
    assert {name for name, (marked, *_) in rows("Metrics").items() if marked} == used


def test_every_reason_of_a_drop_is_named():
    named = re.findall(r"`(\w+)`", rows("Metrics")["recado_dropped_total"][2])
    assert set(get_args(DropReason)) <= set(named)


def test_the_figures_of_sizing_are_measured_ones():
    measured = (ROOT / "docs" / "service-benchmarks.md").read_text()
    cells = re.findall(r"^\| [^|]+ \| ([^|]+) \|", part("Sizing"), re.MULTILINE)[1:]
    figures = [figure for cell in cells for figure in re.findall(r"(?<![\dp])\d[\d,.]*\d", cell)]
    assert len(figures) == 8
    for figure in figures:
        assert re.search(rf"(?<![\d,.]){re.escape(figure)}(?![\d,]|\.\d)", measured), figure


def test_every_file_of_deploy_is_named():
    named = set(re.findall(r"^\| `([\w./]+)` \|", part("Start"), re.MULTILINE)) | {"prometheus/prometheus.yml"}
    folder = ROOT / "deploy"
    there = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and path.name != "token"}
    assert named == there
