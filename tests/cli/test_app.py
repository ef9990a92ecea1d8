import re
import subprocess
import sys

import pytest

from recado import __version__
from recado.cli import app as app_module

VERBS = ["demo", "match", "filter", "serve", "sim"]


def python(code, *arguments):
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)


def test_help_lists_the_verbs_and_teaches_by_example(recado):
    run = recado("--help")
    assert run.code == 0
    for verb in VERBS:
        assert f"{verb} " in run.out
    assert "recado match subscriptions.ndjson events.ndjson" in run.out


def test_help_loads_nothing_heavy():
    """So it answers at once. Rooms of Recado that load much are among them."""
    heavy = [
        "numba",
        "numpy",
        "pyarrow",
        "pyspark",
        "rapidfuzz",
        "re2",
        "matplotlib",
        "networkx",
        "starlette",
        "uvicorn",
    ]
    heavy += ["recado.matching", "recado.semantics", "recado.server", "recado.pipeline", "recado.sim", "recado.overlay"]
    code = "import sys; from recado.cli.app import main; main(['--help']); print([m for m in %r if m in sys.modules])"
    assert python(code % heavy).stdout.splitlines()[-1] == "[]"


def verbs(app, *path):
    """All that can be typed: groups and commands."""
    for name in (name for name in app if not name.startswith("-")):
        yield (*path, name)
        yield from verbs(app[name], *path, name)


def check_help(recado, path):
    """It says how the verb is used, and describes every option."""
    run = recado(*path, "--help")
    assert run.code == 0
    assert f"Usage: recado {' '.join(path)} " in run.out.replace("\n", " ")
    undescribed = re.findall(r"│ +\*? *(--[\w-]+)(?: -\w)?(?: [A-Z]+(?:\.\.\.)?)? +│", run.out)
    assert not undescribed, path


@pytest.mark.parametrize("path", [["match"], ["filter", "covers"], ["serve"], ["sub"], ["log", "repair"]], ids=" ".join)
def test_a_verb_has_help(recado, path):
    check_help(recado, path)


@pytest.mark.long
def test_every_verb_has_help(recado):
    found = list(verbs(app_module.app))
    assert len(found) > 60
    for path in found:
        check_help(recado, path)


def test_version(recado):
    assert recado("--version").out.strip() == __version__


@pytest.mark.parametrize(
    "arguments", [["nonsense"], ["match"], ["match", "a", "b", "--engine", "magic"], ["--nonsense"]]
)
def test_bad_usage_is_exit_code_2(recado, arguments):
    run = recado(*arguments)
    assert run.code == 2
    assert run.err


@pytest.mark.parametrize("arguments", [["filter", "normal", "a == 1"], ["--help"]])
def test_a_reader_that_goes_away_is_no_disaster(arguments):
    code = f"import sys; from recado.cli.app import main; sys.exit(main({arguments!r}))"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        process.stdout.close()
        errors = process.stderr.read()
        assert process.wait() == 141
    assert errors == ""


def test_an_argument_that_is_not_text(recado):
    run = recado("filter", "check", b"x == '\xff'".decode(errors="surrogateescape"))
    assert run.code == 2
    assert run.err == "recado: argument 3, \"x == '\\udcff'\", is not UTF-8 text\n"


def test_a_typing_error_gets_a_suggestion(recado):
    assert 'recado: Unknown command "subb". Did you mean "sub"?' in recado("subb").err
    assert recado("sub", "--typ", "x").err == "recado: Unknown option: --typ. Did you mean --type?\n"
    assert "no such option" in recado("match", "--jsn", "a", "b").err


def test_an_error_of_the_system_is_one_line(recado, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", "/proc/none")
    run = recado("context", "add", "here", "recado://localhost")
    assert (run.code, run.err) == (1, "recado: /proc/none: No such file or directory\n")


@pytest.mark.long
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(recado, shell):
    script = recado("completion", shell).out
    assert "--durable" in script
    if shell == "bash":
        assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0


def test_an_interrupt_is_exit_code_130(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(app_module, "app", interrupted)
    assert app_module.main([]) == 130
