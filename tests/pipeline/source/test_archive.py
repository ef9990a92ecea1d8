"""``read_log``: two readers, one extent."""

import shutil

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recado.pipeline.errors import PipelineError, user_errors
from recado.pipeline.readers import follow_events, read_events
from recado.pipeline.source import archive, read_log
from recado.store.log import LogError, LogReader, Segment
from recado.store.log.manifest import Lost, load


def positions(table):
    return sorted(row["position"] for row in table.collect())


def test_sealed_and_tail_are_one_table_also_if_sealing_comes_in_between(spark, logs):
    path = logs.make(logs.sales(57), sealed=33, name="a [log] {of} *mine*, 100%")
    table = read_log(spark, path)
    expected = [(row["position"], row["id"], row["event"]) for row in logs.rows(path)]
    with logs.writer(path) as log:
        log.append(logs.sales(5, start=57))
        log.seal(force=True)
    got = table.select("position", "id", "event").collect()
    assert sorted(tuple(row) for row in got) == expected
    assert table.columns == ["position", "id", "type", "source", "time", "accepted_at", "event"]


def test_damaged_segments_are_found_and_the_rest_of_them_is_read(spark, logs):
    path = logs.make(logs.sales(45), sealed=40)
    logs.damage(path, 1)
    table = read_log(spark, path, damage="rows")
    rows = table.select("position", "damage").collect()
    assert sorted(row["position"] for row in rows) == list(range(45))
    assert sorted(row["position"] for row in rows if row["damage"]) == list(range(10, 20))
    with pytest.raises(PipelineError, match="positions 10 to 19 cannot be read"), user_errors():
        read_log(spark, path).count()


@pytest.mark.parametrize("harm", [lambda file: file.write_bytes(b""), lambda file: file.unlink()])
def test_a_segment_without_content_is_missed_also_if_no_digest_is_compared(spark, logs, harm):
    path = logs.make(logs.sales(30), sealed=30)
    harm(LogReader(path).segments()[1].path)  # Spark takes an empty file for one without rows, and says nothing
    with pytest.raises(PipelineError, match="positions 10 to 19 cannot be read"), user_errors():
        read_log(spark, path, verify=False).collect()


def test_a_flipped_bit_is_noticed_by_spark_too_and_told_by_position(spark, logs):
    path = logs.make(logs.sales(100), sealed=100, segment_rows=100)
    segment = LogReader(path).segments()[0].path
    good = segment.read_bytes()
    page = pq.ParquetFile(segment).metadata.row_group(0).column(6)  # of the column event: a header, then the data
    end = page.data_page_offset + page.total_compressed_size
    for back in (20, 200):
        content = bytearray(good)
        content[end - back] ^= 1
        segment.write_bytes(content)
        told = "positions 0 to 99 cannot be read by Spark: could not verify page integrity.*damage='skip' or 'rows'"
        with pytest.raises(PipelineError, match=told) as caught, user_errors():
            read_log(spark, path, verify=False).select("event").collect()
        assert "\n" not in str(caught.value)


def test_an_empty_log_and_a_missing_one(spark, logs):
    assert read_log(spark, logs.make()).collect() == []
    with pytest.raises(LogError, match="there is no event log in"):
        read_log(spark, logs.folder / "nothing")


def test_ranges_that_segments_leave(logs):
    path = logs.make(logs.sales(57), sealed=50)
    segments = LogReader(path).segments()

    def rest(numbers, first=0, end=57):
        return [part.value for part in archive._rest(first, end, [segments[n] for n in numbers])]

    assert rest([0, 1, 2, 3, 4]) == [(50, 57)]
    assert rest([0, 1, 2, 3, 4], end=50) == []
    assert rest([0, 3]) == [(10, 30), (40, 57)]
    assert rest([1], first=10) == [(20, 57)]
    assert rest([], first=10) == [(10, 57)]
    assert rest([], first=0, end=0) == [(0, 0)]


def test_segments_with_positions_given_up_are_left_to_our_reader(logs):
    path = logs.make(logs.sales(30), sealed=30)
    manifest = msgspec.structs.replace(load(path), lost=(Lost(12, 14, "gone"),))
    assert [(segment.first, segment.end) for segment in archive._whole(manifest, path)] == [(0, 10), (20, 30)]
    assert all(isinstance(segment, Segment) for segment in archive._whole(manifest, path))


def test_digests_are_checked_file_by_file(logs):
    path = logs.make(logs.sales(30), sealed=30)
    logs.damage(path, 0)
    LogReader(path).segments()[1].path.unlink()
    rows = [
        {"number": n, "path": str(segment.path), "digest": segment.digest}
        for n, segment in enumerate(LogReader(path).segments())
    ]
    found = list(archive._undamaged(iter(pa.Table.from_pylist(rows).to_batches())))
    assert found[0].column("number").to_pylist() == [2]


def test_the_sealed_part_at_a_url(spark, logs, far_url, tmp_path):
    path = logs.make(logs.sales(45), sealed=40)
    with pytest.raises(PipelineError, match="there is no event log at"):
        read_log(spark, f"{far_url}/log")
    far = tmp_path / "far" / "log"
    (far / "segments").mkdir(parents=True)
    for file in (path / "segments").iterdir():
        shutil.copy(file, far / "segments")
    shutil.copy(path / "manifest.json", far)
    found = read_log(spark, f"{far_url}/log")
    rows = [(row["position"], row["id"], row["event"]) for row in logs.rows(path)][:40]
    assert sorted(map(tuple, found.select("position", "id", "event").collect())) == rows
    source = read_events(spark, f"{far_url}/log")
    assert (source.form, source.events.count()) == ({"json": "event"}, 40)
    with pytest.raises(PipelineError, match="at a URL there is only its sealed part"):
        follow_events(spark, f"{far_url}/log")

    first, second = sorted((far / "segments").iterdir())[:2]
    first.unlink()
    content = bytearray(second.read_bytes())
    content[len(content) // 2] ^= 1
    second.write_bytes(content)
    with pytest.raises(PipelineError, match=r"positions 0 to 9 cannot be read: .* is missing or has another length"):
        read_log(spark, f"{far_url}/log")
    assert positions(read_log(spark, f"{far_url}/log", damage="skip")) == list(range(20, 40))
    told = read_log(spark, f"{far_url}/log", damage="rows")
    assert positions(told) == list(range(40))
    assert positions(told.where("damage like '%is damaged'")) == list(range(10, 20))
