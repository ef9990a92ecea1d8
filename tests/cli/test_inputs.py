"""What a verb reads, and what is said about it."""

import io

import pytest

from recado.cli import inputs
from recado.model.limits import LIMITS


def records(raw, path):
    return list(inputs.event_records(io.BufferedReader(io.BytesIO(raw)), path))


@pytest.mark.parametrize(
    ("raw", "path", "place", "problem"),
    [
        (b'{"a":\n"' + b"x" * LIMITS.event_bytes + b'"}', "one.json", ":1", "the event is longer than 1,048,576 bytes"),
        (b"x" * (LIMITS.event_bytes + 1), "lines", ":1", "the line is longer than 1,048,576 bytes"),
        (b"[" + b" " * LIMITS.batch_bytes, "array", "", f"the array is longer than {LIMITS.batch_bytes:,} bytes"),
        (b'[{"a": 1},', "array", "", "$: the JSON text ends too early"),
    ],
)
def test_what_cannot_be_handed_on_is_named(raw, path, place, problem):
    (record,) = records(raw, path)
    assert (record.place, record.problem.removesuffix(", which is the limit")) == (place, problem)


def test_bytes_that_are_no_text_are_handed_on():
    assert [record.raw for record in records(b'{"a":"\xff"}\n', "lines")] == [b'{"a":"\xff"}\n']
