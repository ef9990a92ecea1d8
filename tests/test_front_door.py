"""What ``import recado`` gives: a list that is tested, typed, light to import, and honest about what is missing."""

import ast
import importlib.util
import inspect
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

import recado

ROOT = Path(__file__).parents[1]
FRONT_DOOR = ROOT / "src" / "recado" / "__init__.py"

PUBLIC = {
    "client": {
        "connect",
        "connect_sync",
        "Client",
        "SyncClient",
        "ClientSubscription",
        "SyncSubscription",
        "Notification",
        "Gap",
    },
    "model": {
        "Event",
        "Subscription",
        "Value",
        "Limits",
        "LIMITS",
        "read_event",
        "read_subscription",
        "write_flat",
        "write_cloudevent",
    },
    "filters and matching": {"Filter", "parse", "format_filter", "matches", "covers", "overlaps", "Index"},
    "errors": {
        "RecadoError",
        "EventError",
        "FilterError",
        "LimitError",
        "MissingExtraError",
        "SubscriptionError",
        "ClientError",
        "AddressError",
        "Dropped",
        "NotAllowed",
        "Refused",
        "SessionEnded",
        "TooManyInFlight",
        "Unreachable",
    },
    "the package": {"__version__"},
}

WITHOUT_EXTRAS = """
import sys

class Missing:
    names = {"llvmlite", "matplotlib", "numba", "numpy", "pandas", "prometheus_client", "pyarrow", "pyspark", "scipy",
             "simplemma", "starlette", "uvicorn", "wn"}

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None

sys.meta_path.insert(0, Missing())
"""
"""An installation of ``recado`` alone, as far as imports can tell; the long test below makes a real one."""


def run_python(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), **environment},
    )


def recado_without_extras(*arguments):
    return run_python(WITHOUT_EXTRAS + f"from recado.cli.app import main\nsys.exit(main({list(arguments)!r}))")


def test_the_public_names_are_these():
    names = [name for names in PUBLIC.values() for name in names]
    assert sorted(names) == sorted(recado.__all__)
    assert len(set(recado.__all__)) == len(recado.__all__)


def test_every_public_name_is_there_and_documented():
    for name in recado.__all__:
        value = getattr(recado, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert inspect.getdoc(value), name
    assert set(recado.__all__) <= set(dir(recado))


def test_type_checkers_and_programs_see_the_same_names():
    """What is imported for type checkers is the object that a program gets."""
    checked = next(node for node in ast.parse(FRONT_DOOR.read_text()).body if isinstance(node, ast.If))
    typed = {
        alias.asname or alias.name: (line.module, alias.name)
        for line in checked.body
        if isinstance(line, ast.ImportFrom)
        for alias in line.names
    }
    assert set(typed) == set(recado.__all__) - {"__version__"}
    for name, (module, original) in typed.items():
        found = getattr(__import__(module, fromlist=[original]), original)
        assert getattr(recado, name) is found


def generator():
    specification = importlib.util.spec_from_file_location("generate_api", ROOT / "docs" / "generate_api.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_the_reference_is_what_the_code_says():
    api = generator()
    written = {path.name: path.read_text(encoding="utf-8") for path in api.FOLDER.iterdir()}
    assert written == api.pages(), "run: make api"


def test_the_reference_has_every_public_name_once():
    named = [name for _, _, names in generator().PAGES.values() for name in names.split()]
    assert sorted([*named, "__version__"]) == sorted(recado.__all__)


def test_a_public_name_without_a_docstring_is_told(monkeypatch):
    monkeypatch.setattr(recado.Client.publish, "__doc__", None)
    with pytest.raises(SystemExit, match=r"Client\.publish is public and has no docstring"):
        generator().pages()


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'recado' has no attribute 'does_not_exist'"):
        recado.does_not_exist  # noqa: B018


def test_no_public_signature_takes_anything():
    """Options are spelt out, with types and defaults."""
    for function in (recado.connect, recado.connect_sync, recado.Client.subscribe, recado.SyncClient.subscribe):
        parameters = list(inspect.signature(function).parameters.values())
        assert not [one for one in parameters if one.kind in (one.VAR_KEYWORD, one.VAR_POSITIONAL)]
        assert all(one.annotation not in ("Any", one.empty) for one in parameters if one.name != "self")
    assert [*inspect.signature(recado.connect).parameters] == [*inspect.signature(recado.connect_sync).parameters]


def test_every_option_of_connect_is_documented():
    page = (ROOT / "docs" / "client.md").read_text()
    for name in inspect.signature(recado.connect).parameters:
        assert f"``{name}" in recado.connect.__doc__
        assert f"`{name}" in page or name == "url"


def test_types_are_known_and_wrong_names_are_found(tmp_path):
    """A checker that accepted every name would be no help."""
    snippet = tmp_path / "snippet.py"
    snippet.write_text(
        "import recado\n"
        "reveal_type(recado.connect)\n"
        "reveal_type(recado.parse('Price < 25'))\n"
        "recado.connect('recado://h', no_such_option=1)\n"
        "recado.does_not_exist\n"
    )
    run = subprocess.run(
        [sys.executable, "-m", "mypy", str(snippet)],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        cwd=ROOT,
    )
    lines = run.stdout.splitlines()
    assert run.returncode == 1, run.stderr
    assert any('error: Module has no attribute "does_not_exist"' in line for line in lines)
    assert any('error: Unexpected keyword argument "no_such_option" for "connect"' in line for line in lines)
    revealed = [line for line in lines if "Revealed type" in line]
    assert "timeout: float | None =" in revealed[0]
    assert "-> recado.client.client.Client" in revealed[0]
    assert "recado.model.filter.And" in revealed[1]


def test_importing_recado_is_light():
    heavy = "{'asyncio', 'httpx', 'msgspec', 'numba', 'numpy', 'pyarrow', 're2', 'websockets'} & set(sys.modules)"
    assert run_python(f"import sys, recado; print({heavy})").stdout == "set()\n"
    heavy = "{'httpx', 'numba', 'numpy', 'pyarrow', 're2'} & set(sys.modules)"
    assert run_python(f"import sys, recado; recado.connect; print({heavy})").stdout == "set()\n"


def test_without_extras_everything_but_the_index_is_there():
    code = WITHOUT_EXTRAS + (
        "import recado\n"
        "for name in recado.__all__:\n"
        "    if name != 'Index':\n"
        "        getattr(recado, name)\n"
        "event = recado.read_event({'id': 'e', 'Price': 24})\n"
        "print(recado.matches(recado.parse('Price < 25'), event))\n"
        "try:\n"
        "    recado.Index\n"
        "except recado.RecadoError as error:\n"
        "    print(type(error).__name__, isinstance(error, ImportError), error)\n"
    )
    run = run_python(code)
    assert run.stderr == ""
    needs = "recado.Index needs the package numpy, which is not installed: pip install 'recado[matching]'"
    assert run.stdout.splitlines() == ["True", f"MissingExtraError True {needs}"]


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["serve"], "server"),
        (["backup", "copy"], "server"),
        (["doctor"], "server"),
        (["log", "info", "log"], "server"),
        (["match", "subscriptions", "events"], "matching"),
        (["demo"], "all"),
        (["semantics", "measures"], "semantics"),
        (["pipeline", "match", "a", "b", "--out", "c"], "spark"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else value,
)
def test_a_verb_says_which_extra_it_needs(arguments, extra):
    run = recado_without_extras(*arguments)
    assert run.returncode == 2, run
    assert f"pip install 'recado[{extra}]'" in run.stderr
    assert run.stderr.startswith("recado: ")
    assert run.stderr.count("\n") == 1


def test_light_verbs_work_without_extras():
    run = recado_without_extras("filter", "check", "Price < 25")
    assert (run.returncode, run.stderr) == (0, "")
    explained = recado_without_extras("filter", "explain", "Price < 25", "--event", '{"Price": 24}')
    assert explained.returncode == 0, explained
    assert recado_without_extras("--help").returncode == 0
    for verb in ("serve", "match", "demo", "log", "semantics", "pipeline"):
        run = recado_without_extras(verb, "--help")
        assert run.returncode in (0, 2)
        assert "Traceback" not in run.stderr


USE_IT = """
import asyncio, sys
import recado

async def main():
    async with recado.connect(sys.argv[1], user="ana") as c, c.subscribe("Price < 25", type="Tick") as cheap:
        await c.publish("Tick", {"Stock": "VALE3", "Price": 68})
        await c.publish("Tick", {"Stock": "PETR4", "Price": 24.9})
        async for n in cheap:
            print(n["Stock"], n["Price"], n.position)
            break

asyncio.run(main())
"""


@contextmanager
def service(folder):
    """A service of this installation, in a process of its own; its URL."""
    code = "import sys; from recado.cli.app import main; sys.exit(main())"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "serve", "--data", str(folder), "--port", "0"], stdout=subprocess.PIPE, text=True
    )
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


def test_a_client_without_extras_publishes_and_receives(tmp_path):
    with service(tmp_path) as url:
        run = run_python(WITHOUT_EXTRAS + USE_IT.replace("sys.argv[1]", repr(url)))
    assert (run.stdout, run.stderr) == ("PETR4 24.9 1\n", "")


@pytest.mark.long
def test_the_wheel_alone_is_a_client(tmp_path):
    """Built, installed with nothing but its own dependencies, and used."""

    def prepare(*command):
        subprocess.run(command, check=True, capture_output=True, timeout=600, cwd=ROOT)

    prepare(sys.executable, "-m", "build", "--wheel", "--outdir", tmp_path, ".")
    (wheel,) = tmp_path.glob("recado-*.whl")
    prepare(sys.executable, "-m", "venv", tmp_path / "venv")
    python, command = tmp_path / "venv" / "bin" / "python", tmp_path / "venv" / "bin" / "recado"
    prepare(sys.executable, "-m", "uv", "pip", "install", "--python", python, "-c", ROOT / "constraints.txt", wheel)

    def run(*arguments):
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return subprocess.run(
            arguments, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path, env=environment
        )

    installed = run(python, "-m", "pip", "list", "--format=freeze").stdout
    assert not {line.partition("==")[0] for line in installed.splitlines()} & {"numba", "numpy", "pyarrow", "starlette"}
    assert "venv" in run(python, "-c", "import recado; print(recado.__file__)").stdout
    with service(tmp_path / "data") as url:
        used = run(python, "-c", USE_IT, url)
        assert (used.stdout, used.stderr) == ("PETR4 24.9 1\n", "")
        assert run(command, "pub", "Tick", "Price=20", "--url", url).returncode == 0
        replayed = run(command, "replay", "Price < 25", "--url", url, "--format", "%p %{Price}")
        assert (replayed.stdout, replayed.stderr) == ("1 24.9\n2 20\n", "")
    refused = run(command, "serve")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "pip install 'recado[server]'" in refused.stderr
    index = run(python, "-c", "import recado; recado.Index")
    assert "MissingExtraError: recado.Index needs the package numpy" in index.stderr
    assert run(command, "filter", "check", "Price < 25").returncode == 0
