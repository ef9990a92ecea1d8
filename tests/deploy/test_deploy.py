"""The files of deploy: they parse, name metrics that exist, and pass the tools that know them, where installed."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml

from server.running import http, run, serving

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES = yaml.safe_load((DEPLOY / "prometheus" / "rules.yml").read_text())["groups"][0]["rules"]
DASHBOARD = json.loads((DEPLOY / "grafana" / "recado.json").read_text())
METRIC = re.compile(r"\b(?:recado|process)_\w+|\bup\b")
EXPRESSIONS = [rule["expr"] for rule in RULES] + [
    target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]
]
GIVEN_BY_PROMETHEUS = {"instance", "job", "le"}


@pytest.fixture(scope="module")
def metrics(tmp_path_factory):
    """The names of all samples that a service may show, and the labels of the service's own."""

    async def fetch():
        async with serving(tmp_path_factory.mktemp("service")) as server, http(server) as client:
            await client.post("/v1/events", content="no JSON")
            return (await client.get("/metrics")).text

    text, names = run(fetch()), {"up"}
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE):
        names |= {f"{name}_{part}" for part in ("bucket", "sum", "count")} if kind == "histogram" else {name}
    from recado.server.metrics import LABELLED

    return names, {label for label, _ in LABELLED.values()} | set(re.findall(r'[{,](\w+)="', text))


def test_every_metric_of_rules_and_dashboard_is_one_of_the_service(metrics):
    names, _ = metrics
    used = {name for text in EXPRESSIONS for name in METRIC.findall(text)}
    assert len(used) > 30
    assert used - names == set()
    variable = DASHBOARD["templating"]["list"][1]["query"]["query"]
    assert METRIC.findall(variable)[0] in names


def test_a_metric_that_does_not_exist_is_found(metrics):
    assert set(METRIC.findall("rate(recado_waiting_seconds_total[5m])")) - metrics[0] == {
        "recado_waiting_seconds_total"
    }


def test_every_label_is_one_of_the_service(metrics):
    known = metrics[1] | GIVEN_BY_PROMETHEUS
    used = set()
    for text in EXPRESSIONS:
        for names in re.findall(r"\bby \(([^)]*)\)", text):
            used |= {name.strip() for name in names.split(",")}
        used |= set(re.findall(r"[{,]\s*(\w+)\s*=~?\"", text))
    for rule in RULES:
        used |= set(re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values())))
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            used |= set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
    assert used - known == set()
    assert {"kind", "reason", "status", "le"} <= used


def test_every_alert_says_what_to_do():
    assert len({rule["alert"] for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["description"]


def test_the_dashboard_has_panels_with_places_of_their_own():
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


def test_compose_names_files_that_are_there_and_gives_no_rights():
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    build = compose["services"]["recado"]["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).is_file()
    assert re.search(rf"^ARG {next(iter(build['args']))}=", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    named = set()
    for service in compose["services"].values():
        assert service["cap_drop"] == ["ALL"]
        assert "no-new-privileges:true" in service["security_opt"]
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
        named |= {volume.partition(":")[0] for volume in service["volumes"]}
    assert {name for name in named if not name.startswith(".")} == set(compose["volumes"])
    assert all((DEPLOY / name).exists() for name in named if name.startswith("."))
    asked = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    assert all((DEPLOY / "prometheus" / name).is_file() for name in asked["rule_files"])
    assert asked["scrape_configs"][0]["job_name"] == "recado"


def test_the_image_has_its_kernels_and_no_root():
    text = (DEPLOY / "Dockerfile").read_text()
    last = text[text.rindex("\nFROM ") :]
    assert "\nUSER 7230:7230\n" in last
    assert last.index("\nUSER ") < last.index("\nENTRYPOINT")
    assert "recado kernels build" in text[: text.rindex("\nFROM ")]
    folders = set(re.findall(r"NUMBA_CACHE_DIR=(\S+)", text))
    assert len(folders) == 1, "built and used in one place"
    for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE):
        assert all((DEPLOY.parent / name).exists() for name in line.split()[:-1])


def test_the_image_for_spark_has_its_kernels_and_no_root():
    text = (DEPLOY / "Dockerfile.spark").read_text()
    assert text.rstrip().endswith("USER 185")  # spark in Spark's own images
    assert "'.[spark]'" in text
    assert "--constraint constraints.txt" in text
    assert text.index("NUMBA_CACHE_DIR=") < text.index("recado kernels build")
    assert len(set(re.findall(r"PYSPARK\w*PYTHON=(\S+)", text))) == 1, "driver and executors have one Python"
    for line in re.findall(r"^COPY (.*)$", text, re.MULTILINE):
        assert all((DEPLOY.parent / name).exists() for name in line.split()[:-1])


def test_the_commands_of_unit_and_image_are_understood(tmp_path, recado_help):
    """Every option in them is one of the verb."""
    unit, image = (DEPLOY / "recado.service").read_text(), (DEPLOY / "Dockerfile").read_text()
    for line in re.findall(r"^Exec\w+=\S*/recado (.*)$", unit, re.MULTILINE):
        assert set(re.findall(r"--[\w-]+", line)) <= recado_help(line.split()[0])
    words = json.loads(re.findall(r"^CMD (\[\"serve.*)$", image, re.MULTILINE)[0])
    assert {word for word in words if word.startswith("--")} <= recado_help(words[0])


@pytest.fixture
def recado_help(capsys):
    from recado.cli.app import main

    def options(verb):
        assert main([verb, "--help"]) == 0
        return set(re.findall(r"--[a-z][\w-]*", capsys.readouterr().out))

    return options


def tool(name):
    """Where a program is: beside this Python, or installed on the machine."""
    found = shutil.which(name, path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def check(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def unit(tmp_path):
    """The unit, with a program that is there in the place of the one that is installed."""
    path = tmp_path / "recado.service"
    path.write_text((DEPLOY / "recado.service").read_text().replace("/opt/recado/bin/recado", sys.executable))
    return str(path)


def test_systemd_understands_the_unit(unit):
    said = check(tool("systemd-analyze"), "verify", "--man=no", unit)
    assert "recado.service" not in said, said


def test_systemd_finds_the_unit_safe(unit):
    """2.0 of 10, where 10 is a process that may do everything."""
    check(tool("systemd-analyze"), "security", "--offline=true", "--threshold=20", "--no-pager", unit)


def test_promtool_understands_rules_and_configuration():
    check(tool("promtool"), "check", "rules", str(DEPLOY / "prometheus" / "rules.yml"))
    asked = str(DEPLOY / "prometheus" / "prometheus.yml")
    check(tool("promtool"), "check", "config", "--syntax-only", asked)  # the token is not there


def test_the_service_may_write_to_where_the_page_lets_it_write():
    """Backups, the audit log, kernels: the unit, which is strict, names every folder, and the image makes it."""
    page = (DEPLOY.parent / "docs" / "running.md").read_text()
    named = set(re.findall(r"/var/(?:lib|log|cache|backups)/recado", page))
    assert named == {f"/var/{kind}/recado" for kind in ("lib", "log", "cache", "backups")}
    unit = (DEPLOY / "recado.service").read_text()
    kinds = {"StateDirectory": "lib", "LogsDirectory": "log", "CacheDirectory": "cache"}
    assert "\nProtectSystem=strict\n" in unit
    may = {f"/var/{kinds[kind]}/{name}" for kind, name in re.findall(r"^(\w+Directory)=(recado)$", unit, re.MULTILINE)}
    assert named == may | set(re.findall(r"^ReadWritePaths=-(\S+)$", unit, re.MULTILINE))
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["recado"]
    assert compose["read_only"]
    mounted = {volume.partition(":")[2] for volume in compose["volumes"]}
    (made,) = re.findall(r"install -d .* -g recado (.+)$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    assert mounted == set(made.split()) == {"/var/lib/recado", "/var/backups/recado"}


@pytest.mark.parametrize("name", ["Dockerfile", "Dockerfile.spark"])
def test_hadolint_finds_nothing(name):
    check(tool("hadolint"), str(DEPLOY / name))


def test_compose_is_what_the_specification_allows():
    """``compose-spec.json`` is the schema of the Compose Specification (compose-spec on GitHub, Apache License 2.0)."""
    schema = json.loads((Path(__file__).parent / "compose-spec.json").read_text())
    validator = jsonschema.Draft7Validator(schema)
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    assert [error.message for error in validator.iter_errors(compose)] == []
    compose["services"]["recado"]["readonly"] = True  # it is read_only
    assert len(list(validator.iter_errors(compose))) == 1
