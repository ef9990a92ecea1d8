import pickle
from datetime import UTC, datetime

import pytest

from recado.model.filter import Compare
from recado.pipeline.errors import PipelineError
from recado.pipeline.source.options import Options, read_options


def test_only_the_path_is_needed():
    assert read_options({"path": "/data/log"}) == Options("/data/log")


def test_every_option_is_read_whatever_the_case_of_its_name():
    given = {
        "path": "file:///data/log",
        "STARTINGPOSITION": "7",
        "endingPosition": "9",
        "rowsperpartition": "3",
        "maxRowsPerBatch": "4",
        "damage": "Rows",
        "failOnDataLoss": "FALSE",
        "where": "price < 25",
        "pushDown": "True",
        "lockSeconds": "0.5",
        "checkpointLocation": "/somewhere",
    }
    assert read_options(given) == Options(
        "/data/log", 7, None, 9, 3, 4, "rows", False, Compare("price", "<", 25), True, 0.5
    )


def test_a_path_is_the_same_for_processes_that_start_elsewhere(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert read_options({"path": "log"}).path == str(tmp_path / "log")


def test_words_and_instants():
    assert read_options({"path": "x", "startingPosition": "Latest"}).start == "latest"
    assert read_options({"path": "x", "endingPosition": "latest"}).end is None
    instant = read_options({"path": "x", "startingTime": "2026-01-01T09:00:00-03:00"}).start_time
    assert instant == datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_options_travel_to_other_processes():
    options = read_options({"path": "x", "where": "a in {1, 2}"})
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "option path: give the folder of the log"),
        ({"path": ""}, "option path: give the folder"),
        ({"path": "s3://bucket/log"}, "is no folder of a file system"),
        ({"paths": '["a","b"]'}, "a log is one folder"),
        ({"startPosition": "1"}, "no such option; did you mean startingPosition?"),
        ({"colour": "red"}, "there are path, startingPosition"),
        ({"startingPosition": "first"}, "'first' is not earliest, latest or an integer from 0 on"),
        ({"startingPosition": "-1"}, "'-1' is not"),
        ({"endingPosition": "x"}, "option endingPosition: 'x' is not an integer from 0 on"),
        ({"rowsPerPartition": "0"}, "option rowsPerPartition: '0' is not an integer from 1 on"),
        ({"maxRowsPerBatch": "many"}, "option maxRowsPerBatch"),
        ({"damage": "ignore"}, "'ignore' is none of fail, skip and rows"),
        ({"failOnDataLoss": "maybe"}, "option failOnDataLoss: 'maybe' is neither true nor false"),
        ({"startingTime": "yesterday"}, "option startingTime: 'yesterday' is not an RFC 3339 timestamp"),
        ({"startingTime": "2026-01-01T00:00:00Z", "startingPosition": "1"}, "give one of them, not both"),
        ({"where": "price = 1"}, "option where: '=' is not an operator"),
        ({"lockSeconds": "-1"}, "option lockSeconds: '-1' is not a number of seconds"),
        ({"lockSeconds": "soon"}, "option lockSeconds"),
    ],
)
def test_a_wrong_option_is_named(given, message):
    with pytest.raises(PipelineError) as caught:
        read_options({"path": "/data/log"} | given if given else {})
    assert message in str(caught.value)
