"""What a user reads when something on Spark goes wrong."""

import pytest
from pyspark.errors import PySparkException, PythonException
from pyspark.sql import functions as F

from recado.errors import RecadoError
from recado.pipeline import session
from recado.pipeline.errors import PipelineError, explained, user_errors


def test_an_error_of_ours_from_an_executor_keeps_its_message(spark):
    def fail(batches):
        for _ in batches:
            raise RecadoError("line 3: two lines\nhint: of a message")
        yield from ()

    with pytest.raises(PipelineError) as caught, user_errors():
        spark.range(1).mapInArrow(fail, "id long").collect()
    assert str(caught.value) == "line 3: two lines\nhint: of a message"


def test_a_missing_column_is_told_in_one_line(spark):
    with pytest.raises(PipelineError, match="nothing") as caught, user_errors():
        spark.range(1).select(F.col("nothing")).collect()
    assert "\n" not in str(caught.value)
    assert "SQLSTATE" not in str(caught.value)


def test_a_fault_keeps_its_trace(spark):
    def fault(batches):
        for _ in batches:
            raise ZeroDivisionError
        yield from ()

    with pytest.raises(PythonException, match="ZeroDivisionError"), user_errors():
        spark.range(1).mapInArrow(fault, "id long").collect()
    assert explained(PySparkException("something inside")) is None


def test_without_java_we_say_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(PipelineError, match="Spark needs Java 17 or later"):
        session.start_session()


def test_java_home_counts(monkeypatch, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").write_text("")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    session._need_java()


@pytest.mark.parametrize(("master", "cores"), [("local[3]", 3), ("local-cluster[2,1,1024]", 2)])
def test_cores(master, cores):
    assert session._cores(master) == cores


def test_the_reason_of_a_long_message():
    assert session._reason(ValueError("head\n  java.io.IOException: disk full\n at x")) == "disk full"
    assert session._reason(ValueError("")) == "ValueError"
