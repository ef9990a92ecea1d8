"""``format("recado")`` inside Spark: what it reads, what it takes over from Spark, and how it fails."""

import math
from functools import reduce

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, datasource
from pyspark.sql.functions import col, lit, spark_partition_id
from pyspark.sql.types import StructType

import strategies
from recado.model.event import ENVELOPE
from recado.pipeline.errors import PipelineError, user_errors
from recado.pipeline.source.source import RecadoSource

SCHEMA = (
    "position long, id string, type string, source string, time timestamp, "
    "a string, b long, c double, price boolean, `data.level` timestamp"
)


def literals(name):
    """Literals that often meet the values of a column."""
    return {
        "b": st.sampled_from([n for n in strategies.INTEGERS if -(2**63) <= n < 2**63]),
        "c": st.sampled_from([*strategies.FLOATS, math.nan]),
        "price": st.booleans(),
        "time": strategies.times(),
        "data.level": strategies.times(),
    }.get(name, strategies.strings())


@st.composite
def predicates(draw):
    name = draw(st.sampled_from([*ENVELOPE, *"aabbcc", "price", "data.level"]))
    path, value = (name,), draw(literals(name))
    shapes = [datasource.IsNull(path), datasource.IsNotNull(path)]
    shapes.append(datasource.In(path, draw(st.lists(literals(name) | st.none(), min_size=1, max_size=3))))
    shapes += [getattr(datasource, shape)(path, value) for shape in COMPARISONS]
    if isinstance(value, str):
        shapes += [
            getattr(datasource, f"String{shape}")(path, value) for shape in ("StartsWith", "EndsWith", "Contains")
        ]
    plain = draw(st.sampled_from(shapes))
    return draw(st.sampled_from([plain, plain, datasource.Not(plain)]))


COMPARISONS = {
    "EqualTo": lambda column, value: column == value,
    "EqualNullSafe": lambda column, value: column.eqNullSafe(value),
    "LessThan": lambda column, value: column < value,
    "LessThanOrEqual": lambda column, value: column <= value,
    "GreaterThan": lambda column, value: column > value,
    "GreaterThanOrEqual": lambda column, value: column >= value,
}


def as_column(predicate):
    """The predicate as a user would write it."""
    if isinstance(predicate, datasource.Not):
        return ~as_column(predicate.child)
    column, shape = col(f"`{predicate.attribute[0]}`"), type(predicate).__name__
    match shape:
        case "IsNull":
            return column.isNull()
        case "IsNotNull":
            return column.isNotNull()
        case "In":
            return column.isin([lit(value) for value in predicate.value])
        case "StringStartsWith":
            return column.startswith(predicate.value)
        case "StringEndsWith":
            return column.endswith(predicate.value)
        case "StringContains":
            return column.contains(predicate.value)
    return COMPARISONS[shape](column, lit(predicate.value))


def drawn(strategy, count):
    """Members of a strategy, the same ones each time."""
    found = []

    @settings(max_examples=count, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(strategy)
    def collect(one):
        found.append(one)

    collect()
    return found[:count]


def test_a_pushed_predicate_keeps_what_spark_keeps(spark, logs):
    path = logs.make(drawn(strategies.events(), 80), sealed=60, segment_rows=30)
    tested = drawn(predicates(), 120)
    table = spark.read.format("recado").schema(SCHEMA).load(str(path))
    rows = table.select("position", *(as_column(one).alias(f"p{n}") for n, one in enumerate(tested))).collect()
    source = RecadoSource({"path": str(path), "pushDown": "true"})
    settled = 0
    for n, predicate in enumerate(tested):
        wanted = [row["position"] for row in rows if row[f"p{n}"]]
        reader = source.reader(StructType.fromDDL(SCHEMA))
        rest = reader.pushFilters([predicate])
        found = [p.as_py() for part in reader.partitions() for batch in reader.read(part) for p in batch["position"]]
        assert set(found) >= set(wanted), predicate
        if not rest:
            settled += 1
            assert found == sorted(wanted), predicate
    assert settled > 30


def test_predicates_are_pushed_by_spark_itself(spark, logs):
    path = str(logs.make(logs.sales(57), sealed=33))
    source = spark.read.format("recado").schema("position long, type string, price double, n long")
    wanted = ["type = 'sale' and position < 30", "price > 10 and n not in (40, 41)", "position in (3, 50)"]
    alone = [source.option("pushDown", "true").load(path).where(text) for text in wanted]
    plain = source.option("pushDown", "false").load(path)
    pushed = reduce(DataFrame.union, [table.select(lit(n), "position") for n, table in enumerate(alone)])
    checked = reduce(DataFrame.union, [plain.where(text).select(lit(n), "position") for n, text in enumerate(wanted)])
    assert sorted(map(tuple, pushed.collect())) == sorted(map(tuple, checked.collect()))
    plan = alone[0]._jdf.queryExecution().executedPlan().toString()
    assert "Filter" not in plan.replace("RuntimeFilters", "")


def test_a_table_may_be_used_again_with_other_predicates(spark, logs):
    table = spark.read.format("recado").load(str(logs.make(logs.sales(20))))
    counts = table.where("type = 'sale'").union(table.where("position < 5")).count(), table.count()
    assert counts == (15, 20)


def test_spark_reads_what_the_log_reader_reads_in_several_partitions(spark, logs):
    path = logs.make(logs.sales(57), sealed=33)
    table = spark.read.format("recado").option("rowsPerPartition", 20).load(str(path))
    rows = table.withColumn("part", spark_partition_id()).collect()
    assert sorted({row["part"] for row in rows}) == [0, 1, 2, 3]
    expected = [{**row, "part": None} for row in logs.rows(path)]
    assert sorted(({**row.asDict(), "part": None} for row in rows), key=lambda row: row["position"]) == [
        {name: _naive(value) for name, value in row.items()} for row in expected
    ]


def _naive(value):
    """Spark's Python rows have local times without a zone."""
    return value.astimezone().replace(tzinfo=None) if hasattr(value, "astimezone") else value


def test_an_empty_log_is_an_empty_table(spark, logs):
    assert spark.read.format("recado").load(str(logs.make())).where("type = 'a'").collect() == []


def test_what_a_user_gets_wrong_is_told_in_a_sentence(spark, logs):
    path = str(logs.make(logs.sales(20), sealed=20))
    logs.damage(path, 1)
    source = spark.read.format("recado")
    for attempt, message in [
        (lambda: source.load(str(logs.folder / "nothing")), "there is no event log in"),
        (lambda: source.option("startingPosition", "first").load(path), "option startingPosition: 'first' is not"),
        (lambda: spark.read.format("recado").schema("a int").load(path).count(), "cannot be read as int; use string"),
        (lambda: spark.read.format("recado").load(path).count(), "positions 10 to 19 cannot be read"),
    ]:
        with pytest.raises(PipelineError) as caught, user_errors():
            attempt()
        assert message in str(caught.value)
        assert "Traceback" not in str(caught.value)
        assert "\n" not in str(caught.value)
