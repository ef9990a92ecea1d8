"""What a plan and a progress report show of the source: what was pushed, and how far behind a stream is."""

import json

from recado.pipeline.source import lag, register


def test_explain_shows_what_was_pushed(spark, logs, capsys):
    register(spark)
    path = logs.make(logs.sales(20))

    def plan(push):
        reader = spark.read.format("recado").option("pushDown", push).schema("position long, type string, price double")
        few = reader.load(str(path)).where("position >= 10 and type = 'sale' and price > 3")
        few.explain("formatted")
        return capsys.readouterr().out

    pushed = plan("true")
    (line,) = [line for line in pushed.splitlines() if line.startswith("PushedFilters")]
    assert "GreaterThanOrEqual(position,10)" in line
    assert "EqualTo(type,sale)" in line
    assert "price" not in line  # given to the reader, too, and looked at again
    (again,) = [line for line in pushed.splitlines() if line.startswith("Condition")]
    assert "price" in again
    assert "position" not in again
    plain = plan("false")
    assert "GreaterThanOrEqual(position,10)" not in plain
    assert any("position" in line for line in plain.splitlines() if line.startswith("Condition"))


def test_a_progress_report_has_what_was_read_and_what_there_is(spark, logs):
    register(spark)
    path = logs.make(logs.sales(30))
    stream = spark.readStream.format("recado").option("maxRowsPerBatch", 20).load(str(path))
    query = (
        stream.writeStream.format("noop")
        .option("checkpointLocation", str(logs.folder / "lag"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(280)
    first = next(one for one in query.recentProgress if one.numInputRows)
    (source,) = json.loads(first.json)["sources"]
    assert (source["endOffset"], source["latestOffset"]) == ({"position": 20}, {"position": 30})
    assert lag(first) == 10
    assert "metrics" not in source  # Spark takes none from a Python source; the day it does, give the lag there
