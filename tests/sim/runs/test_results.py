"""Sweeps: nothing is run twice, nothing is thrown away, and the files do not tell who ran what when."""

import multiprocessing

import msgspec
import pyarrow.parquet as pq
import pytest

from recado.sim.runs import results as journal_module
from recado.sim.runs.results import JOURNAL, Journal, code_digest, key_of, read_results, table_of, write_results
from recado.sim.runs.run import execute_run, execute_runs
from recado.sim.runs.scenario import ScenarioError, parse_scenario

TEXT = """
name = "little"
[topology]
nodes = 6
[workload]
operations = 4
subscriptions = 2
[run]
repeats = 2
[sweep]
topology.kind = ["line", "ring"]
protocol = [{ name = "trees", options = { share = true } }, { name = "flooding" }]
"""
RUNS = parse_scenario(TEXT).runs()


def figures(entries):
    return [entry.outcome.metrics for entry in entries]


def test_a_sweep_that_was_broken_off_goes_on(tmp_path):
    with Journal(tmp_path, RUNS) as journal:
        for run in RUNS[:3]:
            journal.add(execute_run(run))
    with Journal(tmp_path, RUNS) as journal:
        assert journal.missing() == RUNS[3:]
        for run in reversed(journal.missing()):
            journal.add(execute_run(run))
        assert journal.missing() == []
        assert figures(journal.outcomes()) == [execute_run(run).metrics for run in RUNS]


def test_a_torn_last_line_is_run_again(tmp_path):
    with Journal(tmp_path, RUNS) as journal:
        for run in RUNS[:2]:
            journal.add(execute_run(run))
    path = tmp_path / JOURNAL
    path.write_bytes(path.read_bytes()[:-20])
    with Journal(tmp_path, RUNS) as journal:
        assert len(journal.outcomes()) == 1
        journal.add(execute_run(RUNS[1]))
    with Journal(tmp_path, RUNS) as journal:
        assert figures(journal.outcomes()) == [execute_run(run).metrics for run in RUNS[:2]]


def test_more_repeats_only_add_runs(tmp_path):
    with Journal(tmp_path, RUNS) as journal:
        journal.add(execute_run(RUNS[0]))
    more = parse_scenario(TEXT.replace("repeats = 2", "repeats = 5")).runs()
    with Journal(tmp_path, more) as journal:
        assert len(journal.missing()) == len(more) - 1


def test_runs_of_another_scenario_are_not_thrown_away(tmp_path):
    with Journal(tmp_path, RUNS) as journal:
        journal.add(execute_run(RUNS[0]))
    other = parse_scenario(TEXT.replace("operations = 4", "operations = 5")).runs()
    with pytest.raises(ScenarioError, match="that is not in this scenario; choose another folder with --out"):
        Journal(tmp_path, other)
    with Journal(tmp_path, other, force=True) as journal:
        assert journal.missing() == other


def test_runs_of_other_code_are_not_mixed_in(tmp_path, monkeypatch):
    with Journal(tmp_path, RUNS) as journal:
        journal.add(execute_run(RUNS[0]))
    changed = msgspec.structs.replace(journal_module.about(), code="0123456789ab")
    monkeypatch.setattr(journal_module, "about", lambda *more: changed)
    with pytest.raises(ScenarioError, match="other code made"):
        Journal(tmp_path, RUNS)


def test_damage_is_told(tmp_path):
    (tmp_path / JOURNAL).write_bytes(b"{}\n")
    with pytest.raises(ScenarioError, match="is damaged"):
        Journal(tmp_path, RUNS)


def test_one_process_at_a_time(tmp_path):
    with Journal(tmp_path, RUNS), pytest.raises(ScenarioError, match="another process is running a sweep"):
        Journal(tmp_path, RUNS)


def test_a_run_is_known_by_what_decides_its_figures():
    assert len({key_of(run) for run in RUNS}) == len(RUNS)
    more = parse_scenario(TEXT.replace("repeats = 2", "repeats = 9")).runs()
    assert key_of(more[0]) == key_of(RUNS[0])


def test_the_fingerprint_of_the_code_covers_more_rooms_if_asked():
    before = code_digest()
    code_digest.cache_clear()
    assert code_digest() == before
    assert code_digest() != code_digest("cli")
    with pytest.raises(ValueError, match="has no code"):
        code_digest("nowhere")


def test_the_fingerprint_covers_tables_and_not_what_judges_the_results(tmp_path):
    """With labelled names changed, the figures of the old ones were shown."""
    table, bounds = tmp_path / "pairs.txt", tmp_path / "expected.toml"

    def digest():
        code_digest.cache_clear()
        return code_digest(tmp_path)

    table.write_text("name ~ nome")
    before = digest()
    bounds.write_text("least = 0.8")
    assert digest() == before
    table.write_text("name ~ title")
    assert digest() != before


def test_processes_give_what_one_process_gives():
    alone = {key_of(outcome.run): outcome.metrics for outcome in execute_runs(RUNS, workers=1)}
    together = {key_of(outcome.run): outcome.metrics for outcome in execute_runs(RUNS, workers=2)}
    assert alone == together
    assert not multiprocessing.active_children()


def test_an_error_in_a_worker_reaches_the_person():
    bad = parse_scenario('[run]\nrepeats = 2\n[topology]\nkind = "ring"\nnodes = 2\n').runs()
    with pytest.raises(ScenarioError, match="a ring has at least 3 nodes"):
        list(execute_runs(bad, workers=2))


@pytest.fixture
def results(tmp_path):
    with Journal(tmp_path, RUNS) as journal:
        for run in RUNS:
            journal.add(execute_run(run))
        write_results(tmp_path, journal.outcomes())
    return tmp_path


def test_a_row_has_parameters_metrics_and_where_it_was_made(results):
    rows = read_results(results)
    assert len(rows) == len(RUNS)
    first = rows[0]
    assert (first["scenario"], first["configuration"], first["run"]) == ("little", "base", 0)
    assert (first["topology.kind"], first["protocol.name"], first["protocol.options.share"]) == ("line", "trees", True)
    assert rows[1]["protocol.options.share"] is None
    assert first["subscribe.messages"] == 10
    assert first["meta.python"].count(".") == 2
    assert first["meta.wall_seconds"] > 0
    assert list(first)[-7:] == [name for name in first if name.startswith("meta.")]


def test_parquet_and_csv_say_the_same(results):
    plain, columns = read_results(results / "results.csv"), read_results(results / "results.parquet")
    assert [row["publish.messages"] for row in plain] == [row["publish.messages"] for row in columns]
    assert list(plain[0]) == pq.read_table(results / "results.parquet").column_names


def test_files_do_not_depend_on_the_order_of_finishing(results, tmp_path):
    with Journal(tmp_path / "again", RUNS) as journal:
        for run in reversed(RUNS):
            journal.add(execute_run(run))
        table = table_of(journal.outcomes())
    kept = [name for name in table.column_names if not name.startswith("meta.")]
    assert table.select(kept).equals(pq.read_table(results / "results.parquet").select(kept))


def test_results_that_are_not_there_or_none(tmp_path):
    with pytest.raises(ScenarioError, match="is not there"):
        read_results(tmp_path)
    (tmp_path / "results.parquet").write_text("no")
    with pytest.raises(ScenarioError, match="cannot be read"):
        read_results(tmp_path)
