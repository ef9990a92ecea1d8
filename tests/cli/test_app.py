import subprocess
import sys
import time

import pytest

from recado import __version__
from recado.cli import app as app_module

VERBS = ["demo", "match", "filter", "bench"]


def python(code, *arguments):
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)


def test_help_lists_the_verbs_and_teaches_by_example(recado):
    run = recado("--help")
    assert run.code == 0
    for verb in VERBS:
        assert f"{verb} " in run.out
    assert "recado match subscriptions.ndjson events.ndjson" in run.out


def test_help_loads_nothing_heavy():
    heavy = ["numba", "numpy", "pyarrow", "pyspark", "rapidfuzz", "re2"]
    code = "import sys; from recado.cli.app import main; main(['--help']); print([m for m in %r if m in sys.modules])"
    assert python(code % heavy).stdout.splitlines()[-1] == "[]"


def test_help_answers_at_once():
    started = time.perf_counter()
    plain = python("import cyclopts, rich.console, rich.table")
    library = time.perf_counter() - started
    started = time.perf_counter()
    ours = python("from recado.cli.app import main; main(['--help'])")
    assert plain.returncode == ours.returncode == 0
    # Compared with its libraries alone, because a clock on a busy machine says little; the bound is generous.
    assert time.perf_counter() - started < 3 * library + 0.5


@pytest.mark.parametrize("verb", ["demo", "match", "filter", "filter check", "filter explain", "filter covers"])
def test_every_verb_has_help(recado, verb):
    run = recado(*verb.split(), "--help")
    assert run.code == 0
    assert f"Usage: recado {verb}" in run.out
    assert "recado match subscriptions.ndjson events.ndjson" not in run.out or verb == "match"


def test_version(recado):
    assert recado("--version").out.strip() == __version__


@pytest.mark.parametrize(
    "arguments", [["nonsense"], ["match"], ["match", "a", "b", "--engine", "magic"], ["--nonsense"]]
)
def test_bad_usage_is_exit_code_2(recado, arguments):
    run = recado(*arguments)
    assert run.code == 2
    assert run.err


def test_a_reader_that_goes_away_is_no_disaster():
    code = "import sys; from recado.cli.app import main; sys.exit(main(['filter', 'normal', 'a == 1']))"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        process.stdout.close()
        errors = process.stderr.read()
        assert process.wait() == 1
    assert "Traceback" not in errors
    assert "Exception ignored" not in errors


def test_an_interrupt_is_exit_code_130(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(app_module, "app", interrupted)
    assert app_module.main([]) == 130
