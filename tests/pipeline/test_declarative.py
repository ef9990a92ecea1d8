"""The example of a declarative pipeline, run for real by PySpark's own command."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pyspark
import pytest

from recado.filters.expression import parse
from recado.model.subscription import Subscription
from recado.pipeline.sets import SubscriptionSet

EXAMPLE = Path(__file__).parents[2] / "examples" / "spark_pipeline"
COMMAND = Path(pyspark.__file__).parent / "bin" / "spark-pipelines"


def run(folder):
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [COMMAND, "--remote", "local[2]", "run"],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def found(folder):
    table = ds.dataset(folder / "spark-warehouse" / "found").to_table()
    return sorted(zip(table["event_id"].to_pylist(), table["subscription_id"].to_pylist(), strict=True))


def test_the_example_is_complete():
    """Without a run: the names that the two files share."""
    spec = (EXAMPLE / "spark-pipeline.yml").read_text()
    code = (EXAMPLE / "transformations" / "alerts.py").read_text()
    for name in ("spark.alerts.events", "spark.alerts.set"):
        assert f"  {name}: /" in spec
        assert f'"{name}"' in code
    compile(code, "alerts.py", "exec")


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_a_pipeline_matches_and_counts(tmp_path):
    if not COMMAND.exists():
        pytest.skip("PySpark has spark-pipelines from 4.1 on")
    pytest.importorskip("yaml", reason="spark-pipelines reads YAML")
    shutil.copytree(EXAMPLE, tmp_path / "pipeline")
    spec = tmp_path / "pipeline" / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("/var/lib/alerts", str(tmp_path)))
    SubscriptionSet(tmp_path / "set").publish([
        Subscription("cheap", parse("Price < 25"), owner="ana"),
        Subscription("any", parse("Price > 0")),
    ])  # fmt: skip
    (tmp_path / "events").mkdir()
    pq.write_table(pa.table({"id": ["a", "b"], "Price": [20.0, 30.0]}), tmp_path / "events" / "1.parquet")
    run(tmp_path / "pipeline")
    assert found(tmp_path / "pipeline") == [("a", "any"), ("a", "cheap"), ("b", "any")]
    counts = ds.dataset(tmp_path / "pipeline" / "spark-warehouse" / "busiest").to_table().to_pylist()
    assert {(row["subscription_id"], row["count"]) for row in counts} == {("any", 2), ("cheap", 1)}
