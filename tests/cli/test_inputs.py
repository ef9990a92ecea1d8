"""What a verb reads, and what is said about it."""

import io

import msgspec
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


@pytest.mark.parametrize("size", [1, 7, 64, 1 << 20])
@pytest.mark.parametrize("last", [b"", b"\n", b"\r\n"])
def test_blocks_have_the_records_that_lines_have(monkeypatch, tmp_path, size, last):
    """Whatever the borders of blocks: blank lines, a byte order mark, lines beyond the limit, a last one cut."""
    monkeypatch.setattr(inputs, "BLOCK_BYTES", size)
    monkeypatch.setattr(inputs, "LIMITS", msgspec.structs.replace(LIMITS, event_bytes=20))
    content = (
        b'\xef\xbb\xbf{"a":1}\n\n  \r\n{"b":2}\r\n'
        + b"x" * 20
        + b"\n"
        + b"y" * 21
        + b"\n"
        + b"z" * 500
        + b'\n{"c":3}'
        + last
    )
    file = tmp_path / "events.ndjson"
    file.write_bytes(content)
    with file.open("rb") as stream:
        plain = [
            (r.place, r.raw.rstrip(b"\r\n"), r.problem, r.default_id) for r in inputs.event_records(stream, str(file))
        ]
    found = []
    with file.open("rb") as stream:
        for block in inputs.event_blocks(stream, str(file)):
            records = [(number, block.record(number)) for number in range(len(block))]
            found += [
                (r.place, r.raw.rstrip(b"\r\n"), r.problem, block.default_id(number))
                for number, r in records
                if r is not None
            ]
    assert found == plain
