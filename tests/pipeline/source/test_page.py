"""docs/spark-source.md: every Python block runs, in order, and prints the text block below it."""

import re
from pathlib import Path

from recado.pipeline.source import options

PAGE = Path(__file__).parents[3] / "docs" / "spark-source.md"
EXAMPLE = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)


def test_the_examples_print_what_they_say(spark, capsys, monkeypatch):
    monkeypatch.setattr("recado.pipeline.session.start_session", lambda: spark)
    names = {}
    examples = EXAMPLE.findall(PAGE.read_text(encoding="utf-8"))
    assert len(examples) == 8
    for code, expected in examples:
        exec(compile(code, str(PAGE), "exec"), names)
        assert capsys.readouterr().out.strip() == expected.strip()


def test_the_table_has_every_option_with_its_default():
    section = PAGE.read_text(encoding="utf-8").partition("## Options")[2].partition("###")[0]
    table = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", section, re.MULTILINE))
    assert set(options.NAMES) == set(table)
    default = options.read_options({"path": "x"})
    assert table["rowsPerPartition"] == str(default.rows_per_partition)
    assert table["pushDown"] == f"`{str(default.push_down).lower()}`"
    assert table["damage"] == f"`{default.damage}`"
    assert table["failOnDataLoss"] == f"`{str(default.fail_on_data_loss).lower()}`"
    assert table["lockSeconds"] == str(int(default.lock_seconds))
